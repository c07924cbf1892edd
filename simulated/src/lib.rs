//! The simulated world: real agent cores (EdgeHub's sessions, MetaManager) and a real cloud (CloudHub's sessions, the edge
//! controller, an API) on in-memory links, with one seed and virtual time.
//!
//! [`World`] takes random steps; everything that is sent or happens is checked against the rules by [`Watcher`]. Real are the session
//! cores, the WebSocket codec, the stores' commits, the API. Simulated are the links ([`link`]: delays, duplicate frames, ends in
//! the middle of a frame, silence), the speed of the disks ([`store`]), and the pods ([`pods`]: they start, report and stop, and
//! outlive the agent as containers do). The time, and the order of what
//! happens, come from [`clock::simulate`]: a seed gives the same run each time, and the trace shows it.

// A simulation fails by panicking, with a message that says what was expected.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cloud;
mod frames;
mod link;
mod node;
mod objects;
mod pods;
mod replay;
mod settled;
mod steps;
mod store;
mod watcher;
mod world;

pub use self::{
    link::Faults,
    watcher::Watcher,
    world::{Life, World},
};
