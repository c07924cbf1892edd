//! The paths to other nodes, shared by those who dial, who find them, and by the relay's task, which reports them to the cloud.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::info;
use wire::relay::Path;

use super::paths::{First, Paths};

/// The table; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct PathTable {
    paths: Arc<Mutex<Paths>>,
    changes: Arc<watch::Sender<u64>>,
}

impl PathTable {
    /// Returns the known paths, by node, as they are reported to the cloud.
    pub(super) fn report(&self) -> BTreeMap<String, Path> {
        self.paths.lock().report()
    }

    /// Returns the known path to an address of a node.
    pub(super) fn get(&self, node: &str, address: IpAddr) -> Option<Path> {
        self.paths.lock().of(node, address)
    }

    /// Returns a receiver that is notified of every change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Decides what a connection to an address of a node tries first.
    pub(super) fn first(&self, node: &str, address: IpAddr) -> First {
        self.paths
            .lock()
            .first(node, address, clock::Instant::now())
    }

    /// Begins a probe of the direct path where the last one is older than `age`; reports whether one is due.
    pub(super) fn begin_probe(&self, node: &str, address: IpAddr, age: Duration) -> bool {
        let mut paths = self.paths.lock();
        let is_due = paths.is_old(node, address, age, clock::Instant::now());
        if is_due {
            paths.record_attempt(node, address, clock::Instant::now());
        }
        is_due
    }

    /// Records the path that a connection or a probe has found.
    pub(super) fn record(&self, node: &str, address: IpAddr, path: Path) {
        if self
            .paths
            .lock()
            .record_path(node, address, path, clock::Instant::now())
        {
            info!(node, %address, path = path.as_str(), "path to another node selected");
            self.changes
                .send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}
