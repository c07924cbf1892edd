//! The authorizer: decides by RBAC; `system:masters` may do everything, nodes nothing.

use super::roles;
use crate::Server;
use kubeapi::access::{attributes::Attributes, rules};
use kubeapi::{identity::Identity, status::StatusError};

/// The group of nodes, which use CloudHub and not this API.
const NODES: &str = "system:nodes";

/// Returns why `caller` is allowed; `None` where it is not.
pub(crate) async fn decide(
    api: &Server,
    caller: &Identity,
    wanted: &Attributes,
) -> Result<Option<String>, StatusError> {
    if caller.is_master() {
        return Ok(Some(String::new()));
    }
    if !api.enforces_rbac() || is_node(caller) {
        return Ok(None);
    }
    granting_binding(api, caller, wanted).await
}

/// Reports whether the caller is a node; nodes may use CloudHub only.
pub(super) fn is_node(caller: &Identity) -> bool {
    caller.is_in(NODES)
}

/// Returns the stored binding that grants the request.
pub(super) async fn granting_binding(
    api: &Server,
    caller: &Identity,
    wanted: &Attributes,
) -> Result<Option<String>, StatusError> {
    let grants = roles::grants(api, caller, &wanted.namespace).await?;
    let grant = grants
        .into_iter()
        .find(|grant| grant.rules.iter().any(|rule| rules::allows(rule, wanted)));
    Ok(grant.map(|grant| grant.reason))
}
