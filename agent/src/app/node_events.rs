//! Events of the node that the wiring records, because few people read the log of a node.

use std::future::{Future, ready};

use edged::events::{self, Recorder};
use kube::Client;
use tokio_util::sync::CancellationToken;

/// Runs what `record` returns, which gets the recorder of the node's events, and writes them to the API, until `shutdown`.
pub(super) async fn record_until<F>(
    client: Client,
    node_name: String,
    shutdown: CancellationToken,
    record: impl FnOnce(Recorder) -> F,
) where
    F: Future<Output = ()>,
{
    let (recorder, occurrences) = events::recorder();
    clock::select! {
        // cancel-safe: events that were not written are lost, as any event may be
        () = shutdown.cancelled() => {}
        () = events::run(client, node_name, occurrences, || ready(())) => {}
        () = record(recorder) => {}
    }
}
