//! What a cloud starts from: nothing, the dump of a cluster, or the snapshot of another cloud.

use std::{path::Path, sync::Arc};

use objectstore::MemoryStore;

use crate::{
    dump::{self, Dump},
    fleet::Machine,
    snapshot::{self, Snapshot},
};

/// Why a file is nothing from which a cloud starts.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is no dump, and no snapshot.
    #[error(transparent)]
    Dump(#[from] dump::Error),
    /// It is a snapshot that cannot be used.
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
}

/// What a cloud starts from.
#[derive(Debug)]
pub enum Origin {
    /// A cluster: its nodes and objects are created.
    Dump(Dump),
    /// Another cloud: it goes on as it was.
    Snapshot(Snapshot),
}

/// Nothing.
impl Default for Origin {
    fn default() -> Self {
        Self::Dump(Dump::default())
    }
}

impl Origin {
    /// Reads a file.
    ///
    /// # Errors
    /// It is neither a dump nor a snapshot.
    pub fn read(path: &Path) -> Result<Self, Error> {
        match Snapshot::read(path)? {
            Some(snapshot) => Ok(Self::Snapshot(snapshot)),
            None => Ok(Self::Dump(Dump::read(path)?)),
        }
    }

    /// Sets virtual time to that of a snapshot, before anything starts: its certificates and leases are of this time.
    pub(crate) fn set_virtual_time(&self) {
        if let Self::Snapshot(snapshot) = self {
            clock::set_virtual_time(snapshot.taken);
        }
    }

    /// Returns the nodes, for [`fleet::Options::machines`](crate::fleet::Options::machines).
    pub fn machines(&self) -> &[Machine] {
        match self {
            Self::Dump(dump) => dump.machines(),
            Self::Snapshot(snapshot) => &snapshot.nodes,
        }
    }

    /// Returns the objects that are created when the nodes are Ready; none of a snapshot, which has them.
    pub fn dump(&self) -> Option<&Dump> {
        match self {
            Self::Dump(dump) => Some(dump),
            Self::Snapshot(_) => None,
        }
    }

    /// Returns the store of the cloud: a snapshot's, or `None`.
    pub fn store(&self) -> Option<Arc<MemoryStore>> {
        match self {
            Self::Dump(_) => None,
            Self::Snapshot(snapshot) => Some(snapshot.store()),
        }
    }
}
