//! Logs, exec, attach and port-forward of this node's own pods: from its kubelet API, with the cloud or without.

use http::{Response, StatusCode, request::Parts};
use kubeapi::{Body, Identity};

use super::{super::response::ApiError, keys::key, route::ObjectRequest, service::ApiServer};

impl ApiServer {
    /// Answers a request for a log or a session of one of this node's pods by `caller`, who is authorized.
    pub(super) async fn stream(
        &self,
        request: &ObjectRequest,
        parts: &Parts,
        caller: Identity,
    ) -> Result<Response<Body>, ApiError> {
        if !self.kubelet.is_set() {
            let why = "this node runs no pods; switch modules.edged on";
            return Err(ApiError::with_code(
                StatusCode::NOT_IMPLEMENTED,
                "NotImplemented",
                why,
            ));
        }
        if !self.copies.is_own(&key(&request.target)).await? {
            return Err(ApiError::bad_request(&format!(
                "pod \"{}\" is not on this node, and MetaServer has {} only of this node's pods; use the cloud's API",
                request.target.name, request.part
            )));
        }
        // the caller is authorized; the name is for the log
        let groups = Identity::master().groups;
        Ok(self
            .local
            .stream(parts, Identity { groups, ..caller })
            .await)
    }
}
