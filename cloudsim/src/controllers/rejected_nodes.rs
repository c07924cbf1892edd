//! Records that a node was rejected as an event of its Node: the node itself cannot report it.

use std::time::Duration;

use clock::Instant;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use limits::Repeated;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::events::{Component, NewEvent, Recorder};
use crate::pki::{RejectedNode, RejectionCause};

const EXPIRED: &str = "CertificateExpired";
const REJECTED: &str = "ConnectionRejected";
/// The reasons of the events.
pub const REJECTION_EVENTS: [&str; 2] = [EXPIRED, REJECTED];
/// How long the API may take to return a Node.
const GET_TIMEOUT: Duration = Duration::from_secs(10);

/// Reports nodes that servers reject: each at once, and again at growing intervals.
pub(crate) async fn run(
    mut rejected: mpsc::Receiver<RejectedNode>,
    client: Client,
    events: Recorder,
    stop: CancellationToken,
) {
    let (nodes, mut repeated) = (Api::<Node>::all(client), Repeated::default());
    // cancel-safe: a report that is lost comes again with the node's next connection
    while let Some(Some(RejectedNode { node, cause })) =
        stop.run_until_cancelled(rejected.recv()).await
    {
        let kind = match &cause {
            RejectionCause::Expired(_) => "expired",
            RejectionCause::Refused(why) => why,
        };
        let Some(times) = repeated.count(&format!("{node}: {kind}"), Instant::now()) else {
            continue;
        };
        let event = event(&node, cause, times);
        match timeout(GET_TIMEOUT, nodes.get_metadata_opt(&node)).await {
            Ok(Ok(Some(object))) => events.record(&object, event),
            // it was deleted
            Ok(Ok(None)) => {}
            Ok(Err(error)) => debug!(node, %error, "failed to read the Node of a rejected node"),
            Err(_) => debug!(node, "failed to read the Node of a rejected node in time"),
        }
    }
}

/// Returns the event. The servers log refusals themselves, and not expired certificates.
fn event(node: &str, cause: RejectionCause, times: u64) -> NewEvent {
    match cause {
        RejectionCause::Refused(why) => {
            let message = format!("The cloud rejects this node: {why}");
            NewEvent::warning(Component::Node, REJECTED, message)
        }
        RejectionCause::Expired(end) => {
            let end = Timestamp::try_from(end)
                .map(|end| end.to_string())
                .unwrap_or_default();
            warn!(node, %end, times, "certificate of a node has expired; its connections are rejected");
            let message = format!(
                "The certificate of this node expired at {end}: it cannot connect. Run `edge-agent reset` there and join again with a \
                 new token, or allow the renewal of expired certificates (cloudsim up --renewal-grace)"
            );
            NewEvent::warning(Component::Node, EXPIRED, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use k8s_openapi::api::core::v1::Event;
    use kube::{
        api::{ListParams, PostParams},
        core::ObjectMeta,
    };
    use objectstore::MemoryStore;
    use testkit::eventually;

    use super::*;
    use crate::{controllers::namespace_defaults, pki::rejection_reports, tasks::Tasks};

    #[tokio::test]
    async fn rejected_node_has_an_event_that_says_why() {
        let client = apiserver::builder(MemoryStore::new())
            .build()
            .client("default");
        namespace_defaults::ensure_initial(&client).await.unwrap();
        let metadata = ObjectMeta {
            name: Some("edge-1".into()),
            ..ObjectMeta::default()
        };
        let node = Node {
            metadata,
            ..Node::default()
        };
        Api::all(client.clone())
            .create(&PostParams::default(), &node)
            .await
            .unwrap();
        let (tasks, stop) = (Tasks::default(), CancellationToken::new());
        let events = Recorder::spawn(&tasks, &client, &stop);
        let (reports, rejected) = rejection_reports();
        tokio::spawn(run(rejected, client.clone(), events, stop.clone()));
        let expired = RejectionCause::Expired(UNIX_EPOCH);
        let refused = RejectionCause::Refused("the certificate was revoked".to_owned());
        for (node, cause) in [
            ("unknown", &expired),
            ("edge-1", &expired),
            ("edge-1", &expired),
            ("edge-1", &refused),
        ] {
            let (node, cause) = (node.to_owned(), cause.clone());
            reports.send(RejectedNode { node, cause }).await.unwrap();
        }
        let api = Api::<Event>::default_namespaced(client);
        let found = eventually("the events of the node", async || {
            let found = api.list(&ListParams::default()).await.unwrap().items;
            match found.len() {
                2 => Ok(found),
                other => Err(other),
            }
        })
        .await;
        for (reason, text) in [
            ("CertificateExpired", "expired at 1970-01-01T00:00:00Z"),
            ("ConnectionRejected", "the certificate was revoked"),
        ] {
            let event = found
                .iter()
                .find(|event| event.reason.as_deref() == Some(reason))
                .unwrap();
            assert_eq!(event.involved_object.name.as_deref(), Some("edge-1"));
            assert_eq!(event.type_.as_deref(), Some("Warning"));
            let message = event.message.as_deref().unwrap_or_default();
            assert!(message.contains(text), "{message}");
        }
        stop.cancel();
    }
}
