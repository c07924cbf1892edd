//! What can go wrong with a cloud in a test.

use std::{io, time::Duration};

use crate::fleet;
use cloudsim::{StartError, tasks::TaskPanicked};

/// Why a test does not get what it wants of its cloud.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cloud does not start.
    #[error("the cloud does not start")]
    Start(#[from] StartError),
    /// A node does not start.
    #[error("a node does not start")]
    Node(#[from] fleet::Error),
    /// There is no temporary directory for the nodes.
    #[error("there is no temporary directory for the nodes; name one in TMPDIR that may be written to")]
    Directory(#[source] io::Error),
    /// There is no node of this name.
    #[error("there is no node {name}; they are called edge-1 and so on, as many as Builder::nodes says")]
    NoNode {
        /// The name.
        name: String,
    },
    /// A text is no manifest, or names a kind that is not served.
    #[error("{0}")]
    Manifest(String),
    /// The API did not take an object.
    #[error("{kind} {name} was not taken: {source}")]
    Refused {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// What the API said.
        source: Box<kube::Error>,
    },
    /// The API did not answer.
    #[error("the API does not do what it is asked")]
    Api(#[from] kube::Error),
    /// An object cannot be watched.
    #[error("the object cannot be watched")]
    Watch(#[source] Box<kube::runtime::wait::Error>),
    /// An object did not become what was wanted.
    #[error("{name} is not as wanted after {within:?}; last seen: {last}")]
    Timeout {
        /// The object.
        name: String,
        /// How long it was waited for.
        within: Duration,
        /// The object as it was last, as JSON.
        last: String,
    },
    /// What was wanted came true by the object's end.
    #[error("{name} is not there")]
    Gone {
        /// The object.
        name: String,
    },
    /// A mapper does not run.
    #[error("the mapper does not run")]
    Mapper(#[from] mapper::RunError),
    /// A part of the cloud has panicked.
    #[error(transparent)]
    Panicked(#[from] TaskPanicked),
}
