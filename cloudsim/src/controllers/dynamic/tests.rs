//! Tests of [`super`].

use std::{convert::Infallible, time::Duration};

use http::{Request, Response};
use kube::client::Body;
use tokio::time::timeout;

use super::*;
use crate::mailbox::Mailboxes;

/// Long enough for the slowest machine; a test that works never waits for it.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

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
        (id.to_owned(), serde_json::from_value::<Application>(watch).unwrap())
    };
    let watches = [watch("1", "/core/v1/pods"), watch("2", "/core/v1/secrets")].into();
    dynamic.watches.lock().insert("edge-1".to_owned(), watches);
    let (replies, _received) = mpsc::channel(1);
    let mut session = dynamic.open("edge-1", replies);
    let forgotten = async {
        tokio::select! {
            () = session.forget_panicked() => unreachable!("it goes on for ever"),
            () = async {
                while dynamic.watches.lock()["edge-1"].len() > 1 {
                    tokio::task::yield_now().await;
                }
            } => {}
        }
    };
    timeout(TEST_TIMEOUT, forgotten).await.expect("it is forgotten");
    assert!(dynamic.watches.lock()["edge-1"].contains_key("1"));
    assert!(session.listeners.keys().eq(["1"]) && session.listening.len() == 1);
}

#[test]
fn paths_that_are_passed_on_say_what_the_api_is() {
    for path in
        ["/version", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/openapi/v3/apis/apps/v1"]
    {
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
