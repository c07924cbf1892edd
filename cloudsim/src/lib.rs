//! KubeEdge's cloud in one process: CloudCore's part towards nodes, an API of its own, and a simulated container runtime.
//!
//! Standalone, [`Cloud::start`] gives an API over a store, kube-rs controllers against it, CloudHub for nodes, and the HTTPS
//! endpoints by which machines become nodes; [`testing::TestCloud`] is one with nodes, for tests. Every part below `controllers` is written against a `kube::Client` and cannot
//! tell whose API it is: with [`Options::cluster`] it is a cluster's that exists, and the cloud keeps nothing itself.

mod admin;
mod admission;
pub mod cli;
mod cloud;
mod commands;
pub mod controllers;
mod demo;
mod enrolment;
pub mod faults;
pub mod fleet;
pub mod hub;
mod kinds;
mod kubeconfig;
pub mod mailbox;
mod metrics;
pub mod pki;
mod reach;
pub mod relay;
mod resource_metrics;
pub mod router;
pub mod runtime;
pub mod scenario;
pub mod streams;
pub mod tasks;
pub mod testing;

pub use cloud::{
    Addresses, Calls, Cloud, ClusterError, ClusterOptions, CrdError, Options, RULES, Right, RightsError,
    Rules, StartError,
};
pub use commands::run as main;
