//! CloudCore's controllers, and the cluster controllers that standalone mode needs: kube-rs programs against a `kube::Client`, which work
//! with this process's API and with a real API server.

pub mod api_services;
mod api_status;
pub mod certificates;
mod changes;
mod deadline;
mod deliveries;
pub mod device;
pub mod dispatcher;
mod disruption;
pub mod dynamic;
pub mod edge;
mod edge_applications;
pub(crate) mod endpoints;
pub mod events;
mod eviction;
mod garbage_collector;
pub(crate) mod informers;
pub mod kubernetes_service;
pub mod manager;
pub mod namespace_defaults;
mod namespace_lifecycle;
#[cfg(test)]
mod node_authorization_tests;
pub mod node_certificates;
pub(crate) mod node_groups;
pub mod node_jobs;
pub mod node_lifecycle;
mod panics;
mod pod_gc;
mod policy;
mod reconciler;
mod refusal_log;
pub(crate) mod rejected_nodes;
mod requeue;
pub mod rules;
pub mod scheduler;
mod shared_read;
pub mod sync;
#[cfg(test)]
mod test_api;
#[cfg(test)]
mod undecodable_tests;
mod volume_binder;
mod volume_protection;
pub(crate) mod volume_provisioner;
pub(crate) mod workloads;

pub use self::rejected_nodes::REJECTION_EVENTS;
