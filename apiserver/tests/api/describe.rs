//! What the API says about itself.

use objectstore::{
    Key, Listing, MemoryStore, Object, Page, Resource, Scope, Store, StoreError, Watch, Write,
};
use serde_json::{Value, json};

use super::world::{MAPS, World, named_map};

#[tokio::test]
async fn health_is_told_in_one_word_or_more() {
    let world = World::new().await;
    for which in ["healthz", "livez", "readyz"] {
        assert_eq!(world.get(&format!("/{which}")).await, json!("ok"));
        let verbose = world.get(&format!("/{which}?verbose")).await;
        assert!(
            verbose
                .as_str()
                .unwrap()
                .ends_with(&format!("{which} check passed\n")),
            "{verbose}"
        );
    }
}

#[tokio::test]
async fn the_issuer_of_tokens_is_published() {
    let world = World::new().await;
    for (path, media_type, expected) in [
        (
            "/.well-known/openid-configuration",
            "application/json",
            json!({
                "issuer": "https://issuer", "jwks_uri": "https://localhost/openid/v1/jwks", "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["ES256"],
            }),
        ),
        (
            "/openid/v1/jwks",
            "application/jwk-set+json",
            json!({"keys": [{"kid": "1"}]}),
        ),
    ] {
        let answer = world.send(&format!("GET {path}"), Value::Null).await;
        assert_eq!(answer.body, expected, "{path}");
        assert_eq!(answer.headers["content-type"], media_type, "{path}");
        assert_eq!(answer.headers["cache-control"], "public, max-age=3600");
    }
    // members of system:serviceaccounts may read it, by a role of Kubernetes
    let world = World::strict().await;
    let path = "GET /openid/v1/jwks impersonate-user:jane";
    world.expect(path, Value::Null, 403, json!({})).await;
    let path = "GET /openid/v1/jwks impersonate-user:jane impersonate-group:system:serviceaccounts";
    world.expect(path, Value::Null, 200, json!({})).await;
}

#[tokio::test]
async fn requests_watchers_and_objects_are_counted() {
    let world = World::new().await;
    for name in ["a", "b"] {
        world.create(MAPS, named_map(name)).await;
    }
    world
        .expect(&format!("GET {MAPS}/absent"), Value::Null, 404, json!({}))
        .await;
    let watch = world.watch(&format!("{MAPS}?watch=1")).await;
    let metrics = world.get("/metrics").await;
    let lines: Vec<_> = metrics.as_str().unwrap().lines().collect();
    for expected in [
        r#"apiserver_request_total{code="201",component="apiserver",group="",resource="configmaps",scope="resource",subresource="",verb="POST",version="v1"} 2"#,
        r#"apiserver_request_total{code="404",component="apiserver",group="",resource="configmaps",scope="resource",subresource="",verb="GET",version="v1"} 1"#,
        r#"apiserver_request_duration_seconds_count{component="apiserver",group="",resource="configmaps",scope="resource",subresource="",verb="POST",version="v1"} 2"#,
        r#"apiserver_current_inflight_requests{request_kind="readOnly"} 0"#,
        r#"apiserver_current_inflight_requests{request_kind="mutating"} 0"#,
        r#"apiserver_longrunning_requests{component="apiserver",group="",resource="configmaps",scope="namespace",subresource="",verb="WATCH",version="v1"} 1"#,
        r#"apiserver_storage_objects{resource="configmaps"} 2"#,
        r#"apiserver_storage_objects{resource="customresourcedefinitions.apiextensions.k8s.io"} 2"#,
    ] {
        assert!(lines.contains(&expected), "{expected}\n{metrics}");
    }
    drop(watch);
    let metrics = world.get("/metrics").await;
    let lines: Vec<_> = metrics.as_str().unwrap().lines().collect();
    let watches: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with("apiserver_longrunning_requests{"))
        .collect();
    assert!(
        watches.len() == 1 && watches[0].ends_with(" 0"),
        "{watches:?}"
    );
    // how long a watch goes on is no duration of a request
    let is_of_a_watch =
        |line: &&str| line.contains("duration_seconds_count") && line.contains("WATCH");
    assert_eq!(lines.iter().copied().find(is_of_a_watch), None);
}

#[tokio::test]
async fn older_clients_find_their_document() {
    let world = World::new().await;
    let document = world.get("/openapi/v2").await;
    assert_eq!(document["swagger"], "2.0");
    let definitions = document["definitions"].as_object().unwrap();
    let kinds: Vec<_> = definitions
        .values()
        .filter_map(|schema| {
            schema
                .pointer("/x-kubernetes-group-version-kind/0/kind")?
                .as_str()
        })
        .collect();
    for kind in ["Pod", "Deployment", "Widget", "CustomResourceDefinition"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    let text = document.to_string();
    assert!(!text.contains("#/components/"));
    // without schemas: kubectl then leaves the items of a `List` to the server
    let protobuf =
        "GET /openapi/v2 accept:application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let (headers, bytes) = world.bytes(protobuf).await;
    assert_eq!(
        headers["content-type"],
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    );
    assert_eq!(
        bytes,
        "\n\u{3}2.0\u{12}\u{1f}\n\nKubernetes\u{12}\u{11}v1.33.0+outriggerB\0"
    );
}

/// A store whose disk is full.
#[derive(Debug)]
struct FullDisk(std::sync::Arc<MemoryStore>, std::sync::atomic::AtomicBool);

#[async_trait::async_trait]
impl Store for FullDisk {
    async fn get(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        Store::get(&*self.0, key).await
    }

    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError> {
        self.0.list(scope, page).await
    }

    async fn sizes(&self) -> Result<Vec<(Resource, u64)>, StoreError> {
        self.0.sizes().await
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<Vec<Object>, StoreError> {
        self.0.commit(writes).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        if !self.1.load(std::sync::atomic::Ordering::Relaxed) {
            return Ok(());
        }
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        Err(StoreError::Disk {
            path: "test.db".into(),
            step: "write",
            cure: "free some space on its disk",
            source: std::sync::Arc::new(full.into()),
        })
    }

    fn watch(&self, scope: Scope, after: u64) -> Result<Watch, StoreError> {
        self.0.watch(scope, after)
    }

    fn revision(&self) -> u64 {
        self.0.revision()
    }
}

#[tokio::test]
async fn readiness_names_the_check_that_fails() {
    let store = std::sync::Arc::new(FullDisk(MemoryStore::new(), true.into()));
    let world = World::around(apiserver::builder(store.clone()).build());
    let failed = "[+]ping ok\n[-]store failed: reason withheld\n";
    for (request, code, text) in [
        ("GET /readyz", 500, format!("{failed}readyz check failed\n")),
        ("GET /readyz?verbose", 500, format!("{failed}readyz check failed\n")),
        ("GET /healthz", 500, format!("{failed}healthz check failed\n")),
        ("GET /readyz/store", 500, "internal server error: reason withheld\n".into()),
        ("GET /readyz/ping", 200, "ok".into()),
        ("GET /readyz?exclude=store", 200, "ok".into()),
        (
            "GET /readyz?verbose&exclude=store&exclude=x",
            200,
            "[+]ping ok\n[+]store excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"x\"\nreadyz check passed\n".into(),
        ),
        ("GET /livez?verbose", 200, "[+]ping ok\nlivez check passed\n".into()),
    ] {
        let answer = world.send(request, Value::Null).await;
        assert_eq!((answer.code.as_u16(), answer.body.as_str()), (code, Some(text.as_str())), "{request}");
    }
    world
        .expect("GET /readyz/other", Value::Null, 404, json!({}))
        .await;
    world
        .expect("GET /livez/store", Value::Null, 404, json!({}))
        .await;
    store.1.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(
        world.get("/readyz?verbose").await,
        json!("[+]ping ok\n[+]store ok\nreadyz check passed\n")
    );
}

#[tokio::test]
async fn documents_are_told_once_to_whoever_keeps_them() {
    let world = World::new().await;
    let aggregated = "accept:application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for path in [
        "/openapi/v2".to_owned(),
        "/openapi/v3".to_owned(),
        "/openapi/v3/api/v1".to_owned(),
        "/api/v1".to_owned(),
        "/apis".to_owned(),
        "/apis/apps".to_owned(),
        "/apis/example.com/v1".to_owned(),
        format!("/api {aggregated}"),
        format!("/apis {aggregated}"),
    ] {
        let first = world.send(&format!("GET {path}"), Value::Null).await;
        let tag = first.headers["etag"].to_str().unwrap().to_owned();
        assert_eq!(first.headers["vary"], "Accept", "{path}");
        let again = world
            .send(&format!("GET {path} if-none-match:{tag}"), Value::Null)
            .await;
        assert_eq!(
            (again.code.as_u16(), again.body),
            (304, json!("")),
            "{path}"
        );
        assert!(tag.starts_with('"') && again.headers["etag"] == tag.as_str());
    }
    // another definition is another document
    let all = [
        "GET /openapi/v2".to_owned(),
        "GET /apis/example.com/v1".to_owned(),
        format!("GET /apis {aggregated}"),
    ];
    let mut before = Vec::new();
    for request in &all {
        before.push(world.send(request, Value::Null).await.headers["etag"].clone());
    }
    let path = "DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.example.com";
    assert!(world.send(path, Value::Null).await.code.is_success());
    for (request, before) in all.iter().zip(before) {
        assert_ne!(
            world.send(request, Value::Null).await.headers["etag"],
            before,
            "{request}"
        );
    }
}
