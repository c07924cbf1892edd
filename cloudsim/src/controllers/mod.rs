//! CloudCore's controllers, and the cluster controllers that standalone mode needs: kube-rs programs against a `kube::Client`, which work
//! with this process's API and with a real API server.

pub mod api_services;
pub mod binder;
pub mod certificates;
mod deadline;
mod deliveries;
pub mod device;
pub mod dispatcher;
mod disruption;
pub mod dynamic;
pub mod edge;
mod endpoints;
pub mod events;
mod eviction;
mod garbage;
mod informers;
pub mod kubernetes_service;
pub mod manager;
mod namespace_lifecycle;
pub mod namespaces;
#[cfg(test)]
mod node_authorization;
pub mod node_certificates;
pub mod node_lifecycle;
mod pod_gc;
mod policy;
mod refusal_log;
pub mod rules;
mod shared_read;
pub mod sync;
mod volume_binder;
pub(crate) mod workloads;
