//! Whether somebody may do something: the decision of the roles in force, which masters and nodes are beyond.

use super::{attributes::Attributes, roles, rules};
use crate::{api::Api, identity::Identity, status::StatusError};

/// The group of the nodes, who have CloudHub and no business here.
const NODES: &str = "system:nodes";

/// Why `caller` may do this; `None` if not.
pub(crate) async fn decide(
    api: &Api,
    caller: &Identity,
    wanted: &Attributes,
) -> Result<Option<String>, StatusError> {
    if caller.is_master() {
        return Ok(Some(String::new()));
    }
    if !api.enforces_rbac() || is_node(caller) {
        return Ok(None);
    }
    granted(api, caller, wanted).await
}

/// Whether the caller is a node, which gets in through CloudHub only.
pub(super) fn is_node(caller: &Identity) -> bool {
    caller.groups.iter().any(|group| group == NODES)
}

/// The stored binding that allows it.
pub(super) async fn granted(
    api: &Api,
    caller: &Identity,
    wanted: &Attributes,
) -> Result<Option<String>, StatusError> {
    let grants = roles::grants(api, caller, &wanted.namespace).await?;
    let grant = grants.into_iter().find(|grant| grant.rules.iter().any(|rule| rules::allows(rule, wanted)));
    Ok(grant.map(|grant| grant.reason))
}
