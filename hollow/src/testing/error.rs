//! The errors of a cloud in a test.

use std::{io, time::Duration};

use crate::fleet;
use cloudsim::{StartError, tasks::TaskPanicked};

/// Why a call of a test cloud failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cloud does not start.
    #[error("the cloud does not start")]
    Start(#[from] StartError),
    /// A node does not start.
    #[error("a node does not start")]
    Node(#[from] fleet::Error),
    /// There is no temporary directory for the nodes.
    #[error(
        "there is no temporary directory for the nodes; name one in TMPDIR that may be written to"
    )]
    Directory(#[source] io::Error),
    /// There is no node of this name.
    #[error(
        "there is no node {name}; they are called edge-1 and so on, as many as Builder::nodes says"
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
    #[error("the API does not do what it is asked")]
    Api(#[from] kube::Error),
    /// An object cannot be watched.
    #[error("the object cannot be watched")]
    Watch(#[source] Box<kube::runtime::wait::Error>),
    /// An object did not become as wanted in time.
    #[error("{name} is not as wanted after {within:?}; last seen: {last}")]
    Timeout {
        /// The object's name.
        name: String,
        /// How long the test waited.
        within: Duration,
        /// The last state of the object, as JSON.
        last: String,
    },
    /// The condition came true when the object was deleted.
    #[error("{name} is not there")]
    Gone {
        /// The object's name.
        name: String,
    },
    /// A mapper does not run.
    #[error("the mapper does not run")]
    Mapper(#[from] mapper::RunError),
    /// A part of the cloud has panicked.
    #[error(transparent)]
    Panicked(#[from] TaskPanicked),
}
