//! Hollow nodes: the real agent on a simulated container runtime, as many as you like in one process, with a cloud in the same
//! process or elsewhere.
//!
//! [`fleet`] runs the nodes and [`runtime`] simulates their containers; [`testing::TestCloud`] is a cloud with nodes, for tests. The
//! program `cloudsim` is here as well ([`cli`]): the library `cloudsim` is the cloud alone and does not depend on the agent.

pub mod cli;
mod commands;
mod demo;
pub mod dump;
pub mod fleet;
mod manifests;
pub mod origin;
mod reach;
pub mod runtime;
pub mod scenario;
pub mod snapshot;
pub mod testing;

pub use commands::run as main;

pub(crate) use wire::did_you_mean as nearest;
