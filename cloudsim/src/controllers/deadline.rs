//! The time that one request of a node may take at the API.

use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;
use tracing::warn;

use super::api_status::failure;

/// The longest time that a request of a node may take at the API. A node's requests are handled one after the other, so that one that is
/// never answered would hold back all others, and the session's end.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits for the outcome of a request of `node`; the error is a `metav1.Status` for the node. A write may have been made all the same.
pub(super) async fn within<T>(node: &str, outcome: impl Future<Output = T>) -> Result<T, Value> {
    timeout(REQUEST_TIMEOUT, outcome).await.map_err(|_| {
        warn!(node, limit = ?REQUEST_TIMEOUT, "request of a node to the API timed out");
        failure(
            504,
            "Timeout",
            &format!("the API did not answer within {REQUEST_TIMEOUT:?}; try again"),
        )
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use kube::{Client, client::Body};
    use serde_json::json;
    use tokio::{sync::mpsc, time::Instant};
    use wire::{
        Answer, Down, Downstream, Header, ResourcePath, ResourceType, application::Application,
    };

    use super::*;
    use crate::{
        controllers::{
            dynamic::Dynamic,
            edge::{Edge, Verb},
        },
        delivery::Reply,
        mailbox::Mailboxes,
    };

    /// An API that never answers.
    fn silent() -> Client {
        let never = |_: http::Request<Body>| {
            std::future::pending::<Result<http::Response<Body>, Infallible>>()
        };
        Client::new(tower::service_fn(never), "default")
    }

    fn unwrap_reply(reply: Option<Reply>) -> Downstream {
        let Some(Reply::Direct(message)) = reply else {
            panic!("no answer")
        };
        Down::from(message).body
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_the_api_does_not_answer_is_answered_in_time() {
        let begun = Instant::now();
        let edge = Edge::new(silent(), Mailboxes::default(), "");
        for (kind, name) in [
            (ResourceType::PersistentVolume, "pv"),
            (ResourceType::Node, "edge-1"),
        ] {
            let path = ResourcePath::object("", &kind, name);
            let reply = edge
                .request(
                    "edge-1",
                    &Header::default(),
                    Verb::Query,
                    (path, &Value::Null),
                )
                .await;
            match unwrap_reply(reply) {
                Downstream::Answer {
                    answer: Answer::Failed(status),
                    ..
                } => assert_eq!(status["code"], 504),
                other => panic!("{other:?}"),
            }
        }
        let dynamic = Dynamic::new(silent(), edge);
        let (replies, _received) = mpsc::channel(1);
        let mut session = dynamic.open("edge-1", replies);
        let call =
            json!({"ID": "1", "Key": "/core/v1/services", "Verb": "list", "Nodename": "edge-1"});
        match unwrap_reply(session.call(&Header::default(), &call).await) {
            Downstream::Application(content) => {
                assert_eq!(
                    Application::read(&content).unwrap().refusal().unwrap()["code"],
                    504
                );
            }
            other => panic!("{other:?}"),
        }
        assert!(begun.elapsed() < 4 * REQUEST_TIMEOUT);
    }
}
