//! This node's kubelet API for MetaServer.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use kubeapi::{NodeAnswer, NodeError, NodeRequest, NodeStreams};

/// This node's kubelet API, which starts after MetaServer, or never. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct LateKubelet(Arc<OnceLock<Arc<dyn NodeStreams>>>);

impl LateKubelet {
    /// Reports whether the API has started.
    pub(super) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// Sets the API, once.
    pub(super) fn set(&self, kubelet: Arc<dyn NodeStreams>) {
        // an agent has one EdgeD
        let _ = self.0.set(kubelet);
    }
}

#[async_trait]
impl NodeStreams for LateKubelet {
    async fn ask(&self, node: &str, request: NodeRequest) -> Result<NodeAnswer, NodeError> {
        match self.0.get() {
            Some(kubelet) => kubelet.ask(node, request).await,
            None => Err(NodeError::Broken(
                node.to_owned(),
                "it runs no pods".to_owned(),
            )),
        }
    }
}
