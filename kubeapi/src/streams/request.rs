//! A request for a subresource that is not stored.

use http::request::Parts;
use serde_json::{Map, Value};

use crate::{
    api::Api, identity::Identity, node_streams::NodeStreams, request::call::Call,
    status::StatusError,
};

/// A request for a subresource that is not stored.
pub(super) struct StreamRequest<'a> {
    pub(super) api: &'a Api,
    pub(super) streams: &'a dyn NodeStreams,
    pub(super) call: &'a Call,
    pub(super) caller: &'a Identity,
    pub(super) parts: Parts,
}

impl StreamRequest<'_> {
    /// Runs policies and webhooks on the request; `options` are its parameters without their kind.
    pub(super) async fn admit(&self, mut options: Map<String, Value>) -> Result<(), StatusError> {
        let target = &self.call.target;
        if let Some((_, version, kind)) = target.part.and_then(|part| part.kind(&target.kind)) {
            options.insert("kind".into(), kind.into());
            options.insert("apiVersion".into(), version.into());
        }
        self.api
            .strategy()
            .connect(self.api, self.call, &Value::Object(options))
            .await
    }
}
