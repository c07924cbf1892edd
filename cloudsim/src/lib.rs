//! KubeEdge's cloud in one process: CloudCore's part towards nodes, and an API of its own.
//!
//! Standalone, [`Cloud::start`] runs an API over a store, kube-rs controllers against it, CloudHub for nodes, and the HTTPS endpoints for
//! enrolment. Everything below `controllers` uses a `kube::Client` and does not know whose API it is: with [`Options::cluster`] it is
//! that of an existing cluster, and the cloud keeps no state itself. Nodes in the same process, and the program, are in the crate
//! `hollow`.

mod admin;
mod admission;
mod cloud;
mod component_statuses;
pub mod controllers;
mod delivery;
mod enrolment;
pub mod faults;
pub mod hub;
mod in_process;
mod kinds;
pub mod kubeconfig;
mod listeners;
pub mod mailbox;
mod page;
mod peers;
pub mod pki;
pub mod relay;
mod resource_metrics;
mod reviews;
pub mod router;
pub mod sessions;
pub mod snapshot;
pub mod streams;
pub mod tasks;
pub mod why;

pub use admin::PREFIX as ADMIN_PREFIX;
pub use cloud::{
    Addresses, BusyPort, Cloud, ClusterError, ClusterOptions, CrdError, DATABASE, LEASE, Observer,
    Options, RULES, RequiredRules, Right, RightsError, StartError, of_all_replicas, seal,
};
pub use controllers::REJECTION_EVENTS;
pub use in_process::InProcess;
pub use kubeapi::KUBERNETES_VERSION;
pub use listeners::Pipe;
pub use peers::PeerOptions;
pub use sessions::CountedSessions;
