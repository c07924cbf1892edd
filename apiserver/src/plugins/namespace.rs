//! Checks the namespace of a new object. Source: Kubernetes' admission plugin `NamespaceLifecycle`.

use kubeapi::{request::path::Target, status::StatusError};
use objectstore::{Key, Resource, Store};

use crate::Server;

/// Checks that the namespace of a new object exists and is not terminating.
pub(crate) async fn check_namespace(api: &Server, target: &Target) -> Result<(), StatusError> {
    if !target.kind.namespaced {
        return Ok(());
    }
    let key = Key::new(
        Resource::new("", "namespaces"),
        "",
        target.namespace.as_str(),
    );
    let namespace = Store::get(&**api.store(), &key).await?;
    let namespace = namespace.ok_or_else(|| StatusError::no_namespace(&target.namespace))?;
    if namespace.is_deleting()? {
        return Err(StatusError::namespace_terminating(
            &target.kind,
            &target.name,
            &target.namespace,
        ));
    }
    Ok(())
}
