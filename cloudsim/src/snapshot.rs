//! Snapshots of a cloud with its nodes, which the program around it takes: it has the nodes.

use std::fmt::Debug;

/// The lines of a snapshot, each with its end.
pub type SnapshotLines = Box<dyn Iterator<Item = Vec<u8>> + Send>;

/// Takes a snapshot of the cloud and of the nodes in its process.
pub trait TakeSnapshot: Debug + Send + Sync {
    /// Returns the state of this moment.
    ///
    /// # Errors
    /// It cannot be taken now; the text says why.
    fn take(&self) -> Result<SnapshotLines, String>;
}
