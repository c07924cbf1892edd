//! Tests of [`super`].

use std::convert::Infallible;

use http::{Request, Response};
use kube::client::Body;
use testkit::until;

use super::*;
use crate::{controllers::edge::topology::Topology, mailbox::Mailboxes};

#[tokio::test]
async fn a_watch_that_panics_is_forgotten_and_the_others_go_on() {
    let service = tower::service_fn(|request: Request<Body>| async move {
        assert!(!request.uri().path().contains("secrets"), "on purpose");
        std::future::pending::<Result<Response<Body>, Infallible>>().await
    });
    let client = Client::new(service, "default");
    let dynamic = Dynamic::new(client.clone(), Edge::new(client, Mailboxes::default(), ""));
    let watch = |id: &str, key: &str| {
        let watch = json!({"ID": id, "Key": key, "Verb": "watch", "Nodename": "edge-1"});
        (
            id.to_owned(),
            serde_json::from_value::<Application>(watch).unwrap(),
        )
    };
    let watches = [watch("1", "/core/v1/pods"), watch("2", "/core/v1/secrets")].into();
    dynamic.watches.lock().insert("edge-1".to_owned(), watches);
    let (replies, _received) = mpsc::channel(1);
    let mut session = dynamic.open("edge-1", replies);
    clock::select! {
        () = session.forget_panicked() => unreachable!("it goes on for ever"),
        () = until("the watch that panicked is forgotten", || dynamic.watches.lock()["edge-1"].len() == 1) => {}
    }
    assert!(dynamic.watches.lock()["edge-1"].contains_key("1"));
    assert!(session.listeners.keys().eq(["1"]) && session.listening.len() == 1);
}

#[test]
fn paths_that_are_passed_on_say_what_the_api_is() {
    for path in [
        "/version",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/openapi/v3/apis/apps/v1",
    ] {
        assert!(is_about_the_api(path), "{path}");
    }
    for path in [
        "",
        "/",
        "version",
        "/metrics",
        "/api/v1/secrets",
        "/apis/a/b/c",
        "/api/../x",
        "/version?x",
        "/logs/x",
    ] {
        assert!(!is_about_the_api(path), "{path}");
    }
}

/// Creates a cloud with RBAC, in which every user may make self reviews.
#[tokio::test]
async fn a_node_that_asks_about_itself_is_told_of_itself_and_not_of_its_cloud() {
    let api = apiserver::builder(objectstore::MemoryStore::new())
        .rbac(true)
        .build();
    let client = api.client("default");
    crate::controllers::namespace_defaults::ensure_initial(&client)
        .await
        .unwrap();
    let dynamic = Dynamic::new(client.clone(), Edge::new(client, Mailboxes::default(), ""));
    let (replies, _received) = mpsc::channel(1);
    let mut session = dynamic.open("edge-1", replies);
    let mut ask = async |group: &str, plural: &str, spec: Value| {
        let question: Application = serde_json::from_value(json!({
            "ID": "1", "Key": format!("/{group}.k8s.io/v1/{plural}"), "Verb": "create", "Nodename": "edge-2",
        }))
        .unwrap();
        let question = Application {
            req_body: json!({"spec": spec}).to_string().into_bytes(),
            ..question
        };
        let Ok(answer) = session.outcome(&question).await else {
            panic!("{plural} is refused")
        };
        serde_json::from_slice::<Value>(&answer).unwrap()["status"].clone()
    };
    let own = ask("authentication", "selfsubjectreviews", json!({})).await;
    assert_eq!(own["userInfo"]["username"], "system:node:edge-1");
    assert_eq!(
        own["userInfo"]["groups"],
        json!(["system:nodes", "system:authenticated"])
    );
    for (verb, group, resource, name, expected) in [
        ("get", "", "nodes", "edge-1", true),
        ("get", "", "nodes", "edge-2", false),
        ("list", "", "pods", "", true),
        ("list", "", "secrets", "", false),
        ("get", "", "secrets", "casecret", false),
        (
            "create",
            "rbac.authorization.k8s.io",
            "clusterrolebindings",
            "",
            false,
        ),
        ("deletecollection", "", "nodes", "", false),
        ("*", "*", "*", "", false),
    ] {
        let wanted = json!({"verb": verb, "group": group, "resource": resource, "name": name, "namespace": "kubeedge"});
        let told = ask(
            "authorization",
            "selfsubjectaccessreviews",
            json!({"resourceAttributes": wanted}),
        )
        .await;
        assert_eq!(
            told["allowed"], expected,
            "{verb} {resource} {name}: {told}"
        );
    }
    for (path, expected) in [("/version", true), ("/metrics", false)] {
        let wanted = json!({"nonResourceAttributes": {"verb": "get", "path": path}});
        let told = ask("authorization", "selfsubjectaccessreviews", wanted).await;
        assert_eq!(told["allowed"], expected, "{path}");
    }
    let rules = ask(
        "authorization",
        "selfsubjectrulesreviews",
        json!({"namespace": "kubeedge"}),
    )
    .await;
    assert_eq!(
        (&rules["resourceRules"], &rules["incomplete"]),
        (&json!([]), &json!(true))
    );
}

#[tokio::test]
async fn objects_that_exist_when_a_watch_begins_are_sent_with_their_kind() {
    let api = apiserver::builder(objectstore::MemoryStore::new()).build();
    let client = api.client("default");
    crate::controllers::namespace_defaults::ensure_initial(&client)
        .await
        .unwrap();
    let call = serde_json::from_value::<Application>(json!({
        "ID": "1", "Key": "/core/v1/namespaces", "Verb": "watch", "Nodename": "edge-1",
    }));
    let call = request::Call::of(&call.unwrap()).unwrap();
    let (replies, mut received) = mpsc::channel(16);
    let watching = tokio::spawn(listen::run(
        client,
        call,
        ("edge-1".to_owned(), Topology::default()),
        replies,
    ));
    let first = testkit::within("the first object", received.recv())
        .await
        .map(|reply| *reply);
    let Some(Reply::Acknowledged(delivery)) = first else {
        panic!("{first:?}")
    };
    let path = delivery.message.route.resource.as_str();
    assert!(path.contains("/namespace/"), "{path}");
    assert_eq!(delivery.message.content["kind"], "Namespace");
    watching.abort();
}

#[tokio::test]
async fn endpoints_of_other_groups_are_sent_when_the_node_moves_there() {
    let api = apiserver::builder(objectstore::MemoryStore::new()).build();
    let client = api.client("default");
    crate::controllers::namespace_defaults::ensure_initial(&client)
        .await
        .unwrap();
    let apply = async |path: &str, object: Value| {
        let request = http::Request::patch(format!("{path}?fieldManager=test&force=true"))
            .header(http::header::CONTENT_TYPE, "application/apply-patch+yaml");
        let request = request.body(object.to_string().into_bytes()).unwrap();
        client.request::<Value>(request).await.unwrap();
    };
    let group = async |node: &str, group: &str| {
        let labels = json!({"apps.kubeedge.io/belonging-to": group});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}});
        let path = format!(
            "/api/v1/nodes/{}",
            node["metadata"]["name"].as_str().unwrap()
        );
        apply(&path, node).await;
    };
    group("edge-1", "a").await;
    group("edge-2", "b").await;
    let annotations = json!({"apps.kubeedge.io/service-topology": "range-nodegroup"});
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "annotations": annotations}, "spec": {"ports": [{"port": 80}]}});
    apply("/api/v1/namespaces/default/services/web", service).await;
    let endpoint = |node: &str| json!({"addresses": ["10.0.0.1"], "nodeName": node});
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "endpoints": [endpoint("edge-1"), endpoint("edge-2")], "ports": []});
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    apply(&format!("{slices}/web-1"), slice).await;

    let edge = Edge::new(client.clone(), Mailboxes::default(), "");
    let stop = tokio_util::sync::CancellationToken::new();
    let _stopping = stop.clone().drop_guard();
    tokio::spawn(edge.clone().run(stop));
    let dynamic = Dynamic::new(client.clone(), edge);
    let (replies, mut received) = mpsc::channel(16);
    let mut session = dynamic.open("edge-1", replies);
    let nodes = |slice: &Value| -> Vec<String> {
        let all = slice["endpoints"].as_array().unwrap().iter();
        all.map(|endpoint| endpoint["nodeName"].as_str().unwrap().to_owned())
            .collect()
    };
    let call = |verb: &str, key: &str| -> Application {
        let call = json!({"ID": "1", "Key": key, "Verb": verb, "Nodename": "edge-1"});
        serde_json::from_value(call).unwrap()
    };
    for (verb, key, items) in [
        ("list", "/discovery.k8s.io/v1/endpointslices", true),
        (
            "get",
            "/discovery.k8s.io/v1/endpointslices/default/web-1",
            false,
        ),
    ] {
        let Ok(answer) = session.outcome(&call(verb, key)).await else {
            panic!("{key} is refused")
        };
        let mut answer: Value = serde_json::from_slice(&answer).unwrap();
        if items {
            let all = answer["items"].as_array().unwrap();
            answer = all
                .iter()
                .find(|slice| slice["metadata"]["name"] == "web-1")
                .unwrap()
                .clone();
        }
        assert_eq!(nodes(&answer), ["edge-1"], "{key}");
    }
    let watch = call("watch", "/discovery.k8s.io/v1/endpointslices");
    assert!(session.outcome(&watch).await.is_ok());
    let mut next = async |wanted: &[&str]| {
        testkit::within("the slice", async {
            loop {
                let Some(Reply::Acknowledged(delivery)) = received.recv().await.map(|reply| *reply)
                else {
                    panic!("the watch has ended")
                };
                let slice = &delivery.message.content;
                if slice["metadata"]["name"] == "web-1" && nodes(slice) == wanted {
                    return delivery.revision;
                }
            }
        })
        .await
    };
    let first = next(&["edge-1"]).await;
    group("edge-1", "b").await;
    let moved = next(&["edge-1", "edge-2"]).await;
    assert!(moved > first, "{moved:?} {first:?}");
    group("edge-2", "c").await;
    assert!(next(&["edge-1"]).await > moved);
}
