//! The simulated world: real agents and cloudsim in one process, over loopback TLS sockets, in temporary directories.
//!
//! [`World`] is a cloud and its nodes, [`Cluster`] a cluster that a cloud may use, [`Object`] an object of its API to change and to wait
//! for, [`Gate`] a store whose commits wait or fail on command, [`TcpRelay`] a link that breaks on command, [`manifests`] what is applied.
//! Nothing here sleeps: a wait ends with its condition, or fails the test after [`WAIT_TIMEOUT`] with the last state that was seen.

// A helper fails its test by panicking, with a message that says what was expected.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod calls;
mod cluster;
mod gate;
mod in_time;
pub mod manifests;
mod object;
mod readings;
mod relay;
mod story;
mod world;

pub use self::{
    calls::right_of,
    cluster::Cluster,
    gate::Gate,
    in_time::in_time,
    object::Object,
    readings::Readings,
    relay::TcpRelay,
    story::story,
    world::{Setup, World, condition, runs, uid},
};
/// The waits for what has no watch: runtimes, files, connections.
pub use testkit::{WAIT_TIMEOUT, eventually, until, within};
