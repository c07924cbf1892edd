//! Events of the node that parts of the wiring record: the log of a node is read by few.

use std::future::{Future, ready};

use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::edged::events::{self, Recorder};

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
    tokio::select! {
        // cancel-safe: what is not written is lost with this, as any event may be
        () = shutdown.cancelled() => {}
        () = events::run(client, node_name, occurrences, || ready(())) => {}
        () = record(recorder) => {}
    }
}
