//! Notifies that the cloud has this node: others may then tell the cloud of it.

use componentbase::Link;
use tokio::sync::watch;

/// Whether the cloud has confirmed this node's status since the start of the agent.
#[derive(Clone, Debug)]
pub struct NodeConfirmed(watch::Receiver<Option<Link>>);

impl NodeConfirmed {
    pub(super) fn new(confirmed: watch::Receiver<Option<Link>>) -> Self {
        Self(confirmed)
    }

    /// Waits until the cloud has confirmed the node. Cancel-safe.
    pub(crate) async fn wait(&mut self) {
        if self.0.wait_for(Option::is_some).await.is_err() {
            // MetaManager has ended
            std::future::pending().await
        }
    }
}
