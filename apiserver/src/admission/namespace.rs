//! The namespace of a request.

use std::sync::Arc;

use serde_json::Value;

use crate::Server;
use kubeapi::{registry::Builtin, request::path::Target, status::StatusError};
use objectstore::{Key, Resource, Store};

/// The namespaces that every cluster has.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

/// Refuses the deletion of a namespace that every cluster has.
pub(super) fn check_deletion(target: &Target) -> Result<(), StatusError> {
    let is_immortal = IMMORTAL.contains(&target.name.as_str());
    if target.kind.is(Builtin::Namespace) && is_immortal {
        let why = "this namespace may not be deleted";
        return Err(StatusError::forbidden(&target.kind, &target.name, why));
    }
    Ok(())
}

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
