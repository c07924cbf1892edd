//! Logs that a node's certificate has expired, and records it as an event of its Node: the node itself cannot report it.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use limits::Repeated;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::events::{Component, NewEvent, Recorder};
use crate::pki::ExpiredCertificate;

/// How long the API may take to return a Node.
const GET_TIMEOUT: Duration = Duration::from_secs(10);

/// Reports the certificates that servers reject: each node's at once, and again at growing intervals.
pub(crate) async fn run(
    mut expired: mpsc::Receiver<ExpiredCertificate>,
    client: Client,
    events: Recorder,
    stop: CancellationToken,
) {
    let (nodes, mut repeated) = (Api::<Node>::all(client), Repeated::default());
    // cancel-safe: a report that is lost comes again with the node's next connection
    while let Some(Some(ExpiredCertificate { node, end })) =
        stop.run_until_cancelled(expired.recv()).await
    {
        let Some(times) = repeated.count(&node, Instant::now()) else {
            continue;
        };
        let end = Timestamp::try_from(end)
            .map(|end| end.to_string())
            .unwrap_or_default();
        warn!(node, %end, times, "certificate of a node has expired; its connections are rejected");
        let object = match timeout(GET_TIMEOUT, nodes.get_metadata_opt(&node)).await {
            Ok(Ok(Some(object))) => object,
            Ok(Ok(None)) => continue,
            Ok(Err(error)) => {
                debug!(node, %error, "failed to read the Node of an expired certificate");
                continue;
            }
            Err(_) => {
                debug!(
                    node,
                    "failed to read the Node of an expired certificate in time"
                );
                continue;
            }
        };
        let message = format!(
            "The certificate of this node expired at {end}: it cannot connect. Run `edge-agent reset` there and join again with a new \
             token, or allow the renewal of expired certificates (cloudsim up --renewal-grace)"
        );
        events.record(
            &object,
            NewEvent::warning(Component::Node, "CertificateExpired", message),
        );
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
    use crate::{controllers::namespace_defaults, pki::expiry_reports, tasks::Tasks};

    #[tokio::test]
    async fn expired_certificate_is_an_event_of_its_node() {
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
        let (reports, expired) = expiry_reports();
        tokio::spawn(run(expired, client.clone(), events, stop.clone()));
        for node in ["unknown", "edge-1", "edge-1"] {
            let report = ExpiredCertificate {
                node: node.into(),
                end: UNIX_EPOCH,
            };
            reports.send(report).await.unwrap();
        }
        let api = Api::<Event>::default_namespaced(client);
        let event = eventually("the event of the node", async || {
            let mut found = api.list(&ListParams::default()).await.unwrap().items;
            if found.len() == 1 {
                Ok(found.remove(0))
            } else {
                Err(found.len())
            }
        })
        .await;
        assert_eq!(event.involved_object.name.as_deref(), Some("edge-1"));
        assert_eq!(
            (event.type_.as_deref(), event.reason.as_deref()),
            (Some("Warning"), Some("CertificateExpired"))
        );
        let message = event.message.unwrap();
        assert!(
            message.contains("expired at 1970-01-01T00:00:00Z"),
            "{message}"
        );
        stop.cancel();
    }
}
