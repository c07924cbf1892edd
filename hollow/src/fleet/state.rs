//! The state of a node that outlives its agent: database, identity, containers.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use agent::edgehub::InProcessLink;
use objectstore::{Image, MemoryStore};
use serde::{Deserialize, Serialize};

use super::{Error, Machine, identity};
use crate::runtime::SimRuntime;

/// The state of a node in memory at one moment.
#[derive(Clone, Deserialize, PartialEq, Serialize)]
pub struct NodeState {
    /// Its directory, to which paths in `runtime` refer.
    pub(super) directory: PathBuf,
    /// Its certificate, its key and the cloud's CA, PEM; `None` before it has joined.
    pub(super) identity: Option<[String; 3]>,
    /// The records of its runtime.
    pub(super) runtime: serde_json::Value,
    /// The database of its agent.
    pub(super) database: Image,
}

/// Neither keys nor objects.
impl fmt::Debug for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeState")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

/// A node in memory, for as long as it exists: its state can be read while its agent runs. Cheap to clone.
#[derive(Clone)]
pub struct NodeHandle {
    /// The node without its state.
    pub(super) machine: Machine,
    pub(super) directory: PathBuf,
    pub(super) database: Arc<MemoryStore>,
    pub(super) runtime: SimRuntime,
    pub(super) link: Option<InProcessLink>,
}

impl NodeHandle {
    /// Returns the database of the node.
    pub fn database(&self) -> &MemoryStore {
        &self.database
    }

    /// Returns the node with this image of its database, and everything else as it is now.
    pub fn machine(&self, database: Image) -> Machine {
        let identity = match &self.link {
            Some(link) => link.identity_pem(),
            None => identity::read(&self.directory),
        };
        let state = NodeState {
            directory: self.directory.clone(),
            identity,
            runtime: self.runtime.records(),
            database,
        };
        Machine {
            state: Some(Arc::new(state)),
            ..self.machine.clone()
        }
    }
}

/// Gives a node the identity of its state.
pub(super) async fn restore_identity(
    state: &NodeState,
    link: Option<&InProcessLink>,
    directory: &Path,
) -> Result<(), Error> {
    let Some(identity) = &state.identity else {
        return Ok(());
    };
    match link {
        Some(link) => link.set_identity_pem(identity).map_err(Error::Identity),
        None => identity::write(directory, identity).await,
    }
}
