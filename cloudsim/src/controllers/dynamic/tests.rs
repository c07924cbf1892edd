//! Tests of [`super`].

use std::convert::Infallible;

use http::{Request, Response};
use kube::client::Body;
use testkit::until;

use super::*;
use crate::mailbox::Mailboxes;

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
    tokio::select! {
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
    let watching = tokio::spawn(listen::run(client, call, replies));
    let first = testkit::within("the first object", received.recv()).await;
    let Some(Reply::Acknowledged(delivery)) = first else {
        panic!("{first:?}")
    };
    let path = delivery.message.route.resource.as_str();
    assert!(path.contains("/namespace/"), "{path}");
    assert_eq!(delivery.message.content["kind"], "Namespace");
    watching.abort();
}
