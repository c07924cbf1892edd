//! Hollow nodes: the real agent on a simulated container runtime, any number of them in one process, beside a cloud or against one
//! that is elsewhere.
//!
//! [`fleet`] runs the nodes and [`runtime`] what is in the place of their containers; [`testing::TestCloud`] is a cloud with nodes, for
//! tests. The program `cloudsim` is here as well ([`cli`]): the library `cloudsim` is the cloud alone and knows no agent.

pub mod cli;
mod commands;
mod demo;
pub mod fleet;
mod reach;
pub mod runtime;
pub mod scenario;
pub mod testing;

pub use commands::run as main;
