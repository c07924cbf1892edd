//! Kubernetes' admission plugins that are always on: they complete a new object from others, such as a pod from its ServiceAccount.

use kubeapi::{registry::Builtin, request::path::Target, status::StatusError};
use serde_json::Value;

use crate::{Server, prepare::check_limits};

mod account;
pub(crate) mod limits;
mod namespace;
mod node;
mod priority;
mod references;
mod runtime_class;
mod storage;

/// Checks that an object may be created in its namespace, and completes it.
pub(crate) async fn admit(
    api: &Server,
    target: &Target,
    object: &mut Value,
) -> Result<(), StatusError> {
    namespace::check_namespace(api, target).await?;
    check_limits(&target.kind, &target.name, None, object)?;
    node::admit(target, object);
    storage::admit(api, target, object).await?;
    limits::admit(api, target, object).await?;
    if target.kind.is(Builtin::Pod) {
        account::admit(api, target, object).await?;
        runtime_class::admit(api, target, object).await?;
        priority::admit(api, target, object).await?;
    }
    Ok(())
}
