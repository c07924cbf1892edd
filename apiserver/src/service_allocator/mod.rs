//! What the server gives a service: an address of the cluster, and ports of the nodes.
//!
//! Each address and each port that is given out is an object in the store, written in the same commit as the service that
//! has it: two services can never get the same one, and what was given out outlives a restart. As the real server keeps its
//! `IPAddress` objects (KEP-1880).

use std::collections::BTreeSet;

use serde_json::Value;

use crate::Server;
use kubeapi::{
    object::{as_map, child},
    registry::Builtin,
    request::path::Target,
    status::StatusError,
};
use objectstore::{Key, Write};

mod claims;
mod fields;
mod ranges;
mod spec;

pub(crate) use claims::is_claim;
pub(crate) use fields::carry;

/// The writes that go with that of a service: what it is given is claimed, and what it no longer has is released. Sets what it
/// is given in `new`. Nothing for other kinds.
pub(crate) async fn settle(
    api: &Server,
    target: &Target,
    old: Option<&Value>,
    new: Option<&mut Value>,
) -> Result<Vec<Write>, StatusError> {
    if !concerns(target) {
        return Ok(Vec::new());
    }
    let key = Key::new(
        target.kind.resource().clone(),
        target.namespace.as_str(),
        target.name.as_str(),
    );
    let before = match old {
        Some(old) => fields::held_claims(old),
        // of a damaged service they are known by its name alone
        None if api.store().damaged_objects().has(&key) => {
            claims::stored_claims(api, target).await?
        }
        None => BTreeSet::new(),
    };
    let Some(new) = new else {
        return claims::difference(api, target, &before, None).await;
    };
    let refuse = |causes| StatusError::invalid("", "Service", &target.name, causes);
    let spec = child(as_map(new), "spec");
    let causes = fields::families(spec);
    if !causes.is_empty() {
        return Err(refuse(causes));
    }
    claims::give_address(api, spec, &before, refuse).await?;
    claims::give_ports(api, spec, &before, refuse).await?;
    claims::difference(api, target, &before, Some(new)).await
}

/// Whether writes of the target come with others.
pub(crate) fn concerns(target: &Target) -> bool {
    target.kind.is(Builtin::Service)
}

#[cfg(test)]
mod tests;
