//! KubeEdge's cloud in one process: CloudCore's part towards nodes, and an API of its own.
//!
//! Standalone, [`Cloud::start`] gives an API over a store, kube-rs controllers against it, CloudHub for nodes, and the HTTPS
//! endpoints by which machines become nodes. Every part below `controllers` is written against a `kube::Client` and cannot tell whose API
//! it is: with [`Options::cluster`] it is a cluster's that exists, and the cloud keeps nothing itself. Nodes in the same process, and the
//! program, are in the crate `hollow`.

mod admin;
mod admission;
mod clock;
mod cloud;
pub mod controllers;
mod delivery;
mod enrolment;
pub mod faults;
pub mod hub;
mod kinds;
pub mod kubeconfig;
pub mod mailbox;
mod metrics;
pub mod pki;
pub mod relay;
mod resource_metrics;
pub mod router;
pub mod sessions;
pub mod streams;
pub mod tasks;

pub use admin::PREFIX as ADMIN_PREFIX;
pub use cloud::{
    Addresses, Calls, Cloud, ClusterError, ClusterOptions, CrdError, DATABASE, LEASE, Options, RULES, Right,
    RightsError, Rules, StartError, of_all_replicas, seal,
};
