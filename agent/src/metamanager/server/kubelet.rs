//! Logs, commands, attachments and ports of this node's own pods: from its kubelet API, with the cloud or without.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use http::{Response, StatusCode, request::Parts};
use kubeapi::{Body, Identity, NodeAnswer, NodeError, NodeRequest, NodeStreams};

use super::{super::answer::Refusal, copies::key, route::Ask, service::ApiServer};

/// This node's kubelet API, which is there later than MetaServer, or never. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct LateKubelet(Arc<OnceLock<Arc<dyn NodeStreams>>>);

impl LateKubelet {
    /// Here it is.
    pub(super) fn set(&self, kubelet: Arc<dyn NodeStreams>) {
        // there is one EdgeD in an agent
        let _ = self.0.set(kubelet);
    }
}

#[async_trait]
impl NodeStreams for LateKubelet {
    async fn ask(&self, node: &str, request: NodeRequest) -> Result<NodeAnswer, NodeError> {
        match self.0.get() {
            Some(kubelet) => kubelet.ask(node, request).await,
            None => Err(NodeError::Broken(node.to_owned(), "it runs no pods".to_owned())),
        }
    }
}

impl ApiServer {
    /// A log or a session of one of this node's pods, for `caller`, who may have it.
    pub(super) async fn stream(
        &self,
        ask: &Ask,
        parts: &Parts,
        caller: Identity,
    ) -> Result<Response<Body>, Refusal> {
        if self.kubelet.0.get().is_none() {
            let why = "this node runs no pods; switch modules.edged on";
            return Err(Refusal::of_code(StatusCode::NOT_IMPLEMENTED, "NotImplemented", why));
        }
        if !self.copies.is_own(&key(&ask.target)).await? {
            return Err(Refusal::bad_request(&format!(
                "pod \"{}\" is not on this node, and MetaServer has {} only of pods that are; ask the cloud's API",
                ask.target.name, ask.part
            )));
        }
        // MetaServer has decided; the name is for the log
        let groups = Identity::master().groups;
        Ok(self.local.stream(parts, Identity { groups, ..caller }).await)
    }
}
