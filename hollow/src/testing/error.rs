//! The errors of a cloud in a test.

use std::{io, time::Duration};

use super::ReplayError;
use crate::fleet;
use cloudsim::{StartError, tasks::TaskPanicked};

/// Why a call of a test cloud failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cloud does not start.
    #[error("cannot start the cloud")]
    Start(#[from] StartError),
    /// A node does not start.
    #[error("cannot start a node")]
    Node(#[from] fleet::Error),
    /// The cloud has a data directory or a store of its own, so no snapshot can be taken.
    #[error("a snapshot needs a cloud in memory: start it without a data directory and a store")]
    NotInMemory,
    /// The objects of a dump cannot be created.
    #[error("cannot create the objects of the dump")]
    Dump(#[from] crate::dump::Error),
    /// There is no temporary directory for the nodes.
    #[error(
        "cannot create a temporary directory for the nodes; set TMPDIR to a writable directory"
    )]
    Directory(#[source] io::Error),
    /// Virtual time cannot begin on this thread.
    #[error("cannot begin virtual time")]
    Simulation(#[source] io::Error),
    /// There is no node of this name.
    #[error(
        "there is no node {name}; nodes are named edge-1 to edge-N, where N is the number passed to Builder::nodes"
    )]
    NoNode {
        /// The name.
        name: String,
    },
    /// A text is not a valid manifest, or names a kind that is not served.
    #[error("{0}")]
    Manifest(String),
    /// The API refused an object.
    #[error("{kind} {name} was refused: {source}")]
    Refused {
        /// The object's kind.
        kind: String,
        /// The object's name.
        name: String,
        /// The API's error.
        source: Box<kube::Error>,
    },
    /// The API did not answer.
    #[error("an API call failed")]
    Api(#[from] kube::Error),
    /// An object cannot be watched.
    #[error("cannot watch the object")]
    Watch(#[source] Box<kube::runtime::wait::Error>),
    /// An object did not become as wanted in time.
    #[error("{name} does not fulfil the condition after {within:?}; last state: {last}")]
    Timeout {
        /// The object's name.
        name: String,
        /// How long the test waited.
        within: Duration,
        /// The last state of the object, as JSON.
        last: String,
    },
    /// The condition came true when the object was deleted.
    #[error("{name} does not exist")]
    Gone {
        /// The object's name.
        name: String,
    },
    /// Mappers cannot reach a node.
    #[error(
        "node {node} has no socket for mappers, as in virtual time; report values with HollowNode::devices, or run this test in real time"
    )]
    NoSocket {
        /// The node.
        node: String,
    },
    /// A mapper does not run.
    #[error("cannot run the mapper")]
    Mapper(#[from] mapper::RunError),
    /// A recording was not replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A part of the cloud has panicked.
    #[error(transparent)]
    Panicked(#[from] TaskPanicked),
}
