//! Checks whether an object may be written.

use serde_json::Value;

use crate::{
    cause::Cause,
    definitions::rules as definition_rules,
    registry::{Builtin, Kind},
    status::StatusError,
};

mod addresses;
mod batch;
mod config;
mod container;
mod decode;
mod ephemeral;
mod event;
mod faults;
mod immutable;
mod lease;
mod metadata;
mod network;
mod node;
mod pod;
mod pod_update;
mod policy;
mod schedule;
mod sysctl;
#[cfg(test)]
mod tests;
mod workload;

pub use addresses::endpoint_address;
pub(crate) use decode::{decode, decode_body, unknown_metadata};
pub(crate) use ephemeral::ephemeral_containers;

/// What happens to unknown fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// The write is refused.
    Strict,
    /// The fields are dropped with a warning.
    Warn,
    /// The fields are dropped.
    Ignore,
}

impl FieldValidation {
    /// Parses the query parameter `fieldValidation`.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, StatusError> {
        match text {
            Some("Strict") => Ok(Self::Strict),
            None | Some("Warn") => Ok(Self::Warn),
            Some("Ignore") => Ok(Self::Ignore),
            Some(other) => Err(StatusError::bad_request(format!(
                "fieldValidation: Unsupported value: {other:?}: supported values: \"Ignore\", \"Strict\", \"Warn\""
            ))),
        }
    }
}

/// Returns the faults of a new object, which is complete except for what only the server sets.
pub(crate) fn create(kind: &Kind, object: &Value) -> Vec<Cause> {
    let mut causes = metadata::create(kind, object);
    match kind.builtin {
        Some(Builtin::Pod) => causes.extend(pod::create(object)),
        Some(Builtin::Event | Builtin::NewEvent) => causes.extend(event::create(object)),
        builtin => causes.extend(content(builtin, object)),
    }
    causes.extend(kind.builtin.into_iter().flat_map(|builtin| addresses::check(builtin, None, object)));
    causes
}

/// Returns the faults of a change from `old` to `new`.
pub(crate) fn update(kind: &Kind, old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = metadata::update(kind, old, new);
    match kind.builtin {
        // The created spec was valid, and the rest of it cannot change.
        Some(Builtin::Pod) => causes.extend(pod_update::update(old, new)),
        Some(Builtin::ConfigMap | Builtin::Secret) => causes.extend(config::update(old, new)),
        Some(Builtin::Service) => causes.extend(network::update_service(old, new)),
        Some(Builtin::EndpointSlice) => causes.extend(network::update_slice(old, new)),
        Some(Builtin::Job) => causes.extend(batch::update_job(old, new)),
        Some(Builtin::CustomResourceDefinition) => causes.extend(definition_rules::update(old, new)),
        Some(Builtin::RoleBinding | Builtin::ClusterRoleBinding) => {
            causes.extend(policy::update_binding(old, new))
        }
        Some(
            builtin @ (Builtin::Deployment
            | Builtin::ReplicaSet
            | Builtin::ReplicationController
            | Builtin::DaemonSet
            | Builtin::StatefulSet),
        ) => causes.extend(workload::update(builtin, old, new)),
        Some(builtin) => causes.extend(immutable::update(builtin, old, new)),
        None => {}
    }
    if !kind.is(Builtin::Pod) {
        causes.extend(content(kind.builtin, new));
    }
    causes.extend(kind.builtin.into_iter().flat_map(|builtin| addresses::check(builtin, Some(old), new)));
    causes
}

/// Returns the faults in a kind's content, checked at every write; kinds that are only stored have no such rules.
fn content(builtin: Option<Builtin>, object: &Value) -> Vec<Cause> {
    let Some(builtin) = builtin else { return Vec::new() };
    match builtin {
        Builtin::ConfigMap => config::config_map(object),
        Builtin::Secret => config::secret(object),
        Builtin::Service => network::service(object),
        Builtin::Endpoints => network::endpoints(object),
        Builtin::EndpointSlice => network::slice(object),
        Builtin::Lease => lease::lease(object),
        Builtin::Node => node::node(object),
        Builtin::Deployment
        | Builtin::ReplicaSet
        | Builtin::ReplicationController
        | Builtin::DaemonSet
        | Builtin::StatefulSet => workload::workload(builtin, object),
        Builtin::Job => batch::job(object),
        Builtin::CronJob => batch::cron_job(object),
        Builtin::PodDisruptionBudget => policy::disruption_budget(object),
        Builtin::RoleBinding | Builtin::ClusterRoleBinding => policy::binding(object),
        _ => Vec::new(),
    }
}
