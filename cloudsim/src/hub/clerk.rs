//! What a session leaves to others: a node's requests are carried out, its acknowledgements written down.

use tokio::sync::mpsc;
use tracing::warn;
use wire::{Message, Up, Upstream};

use crate::controllers::{
    device::Devices,
    dynamic::Dynamic,
    edge::{Edge, Reply},
    sync::{Record, SyncRecords},
};

/// Carries the node's requests out, one after the other: a later patch never overtakes an earlier one.
pub(super) async fn carry_out(
    node: String,
    (edge, dynamic, devices): (Edge, Dynamic, Devices),
    mut requests: mpsc::Receiver<Message>,
    answers: mpsc::Sender<Reply>,
) {
    let mut dynamic = dynamic.open(&node, answers.clone());
    while let Some(request) = requests.recv().await {
        let replies = match Up::from(request) {
            Up { header, body: Upstream::Application(content) } => {
                dynamic.call(&header, &content).await.into_iter().collect()
            }
            Up { header, body: Upstream::WatchSync(content) } => {
                dynamic.keep(&header, &content).await.into_iter().collect()
            }
            Up { header, body: Upstream::MembershipDetail(_) } => devices.members(&node, &header),
            Up { header, body: Upstream::Device { path, update } } => {
                vec![devices.report(&node, &header, &path, &update).await]
            }
            other => edge.handle(&node, other.into()).await.into_iter().collect::<Vec<_>>(),
        };
        for reply in replies {
            // nobody reads answers of a session that has ended; the node asks again
            let _ = answers.send(reply).await;
        }
    }
}

/// Keeps the bookkeeping. What is not written down is sent again at the next connection, and acknowledged again.
pub(super) async fn write_down(node: String, records: SyncRecords, mut acknowledged: mpsc::Receiver<Record>) {
    while let Some(record) = acknowledged.recv().await {
        if let Err(error) = records.write(&node, &record).await {
            warn!(
                node,
                ?record,
                error = &error as &dyn std::error::Error,
                "an acknowledgement could not be written down"
            );
        }
    }
}
