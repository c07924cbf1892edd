//! The paths to other nodes, shared by those who dial, who find them, and by the relay's task, which reports them to the cloud.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::info;
use wire::relay::Path;

use super::paths::{First, Paths};
use crate::rt::now;

/// The table; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct PathTable {
    paths: Arc<Mutex<Paths>>,
    changes: Arc<watch::Sender<u64>>,
}

impl PathTable {
    /// Returns the known paths, by node.
    pub(super) fn all(&self) -> BTreeMap<String, Path> {
        self.paths.lock().all()
    }

    /// Returns the known path to a node.
    pub(super) fn get(&self, node: &str) -> Option<Path> {
        self.paths.lock().of(node)
    }

    /// Returns a receiver that is notified of every change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Decides what a connection to a node tries first.
    pub(super) fn first(&self, node: &str) -> First {
        self.paths.lock().first(node, now())
    }

    /// Begins a probe of the direct path where the last one is older than `age`; reports whether one is due.
    pub(super) fn begin_probe(&self, node: &str, age: Duration) -> bool {
        let mut paths = self.paths.lock();
        let is_due = paths.is_old(node, age, now());
        if is_due {
            paths.tried(node, now());
        }
        is_due
    }

    /// Records the path that a connection or a probe has found.
    pub(super) fn record(&self, node: &str, path: Path) {
        if self.paths.lock().found(node, path, now()) {
            info!(node, ?path, "the path to another node's pods");
            self.changes.send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}
