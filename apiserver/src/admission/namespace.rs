//! The namespace of a request.

use std::sync::Arc;

use serde_json::Value;

use crate::Server;
use kubeapi::{request::path::Target, status::StatusError};
use objectstore::{Key, Resource, Store};

/// Returns the namespace of the request, if there is one.
pub(super) async fn namespace(api: &Server, target: &Target) -> Result<Arc<Value>, StatusError> {
    if !target.kind.namespaced || target.namespace.is_empty() {
        return Ok(Arc::default());
    }
    let key = Key::new(
        Resource::new("", "namespaces"),
        "",
        target.namespace.as_str(),
    );
    let found = Store::get(&**api.store(), &key).await?;
    Ok(Arc::new(
        found
            .map(|found| found.value())
            .transpose()?
            .unwrap_or_default(),
    ))
}
