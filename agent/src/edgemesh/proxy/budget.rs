//! How many connections there may be at a time: in all, and for one port of a Service, so that one of them cannot take everything.

use std::sync::Arc;

use nix::sys::resource::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::edgemesh::figures::Figures;

/// Connections at a time, where the process may have files enough: each needs two.
const CONNECTIONS: usize = 10_000;
/// Clients of UDP at a time; each needs one file.
const FLOWS: usize = 4096;
/// Files that are left to the rest of the agent.
const SPARE_FILES: usize = 1024;

/// The shares of all; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    pub(super) connections: Arc<Semaphore>,
    pub(super) flows: Arc<Semaphore>,
    /// Of one port of a Service.
    pub(super) share: usize,
    pub(super) figures: Arc<Figures>,
}

/// A connection's place; it is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    _all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
}

impl Budget {
    /// As much as this process may have files for.
    pub(super) fn of_process(figures: Arc<Figures>) -> Self {
        let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        let files = usize::try_from(files).unwrap_or(usize::MAX).saturating_sub(SPARE_FILES);
        let connections = CONNECTIONS.min(files / 3).max(64);
        Self {
            connections: Arc::new(Semaphore::new(connections)),
            flows: Arc::new(Semaphore::new(FLOWS.min(files / 4).max(64))),
            share: (connections / 2).max(1),
            figures,
        }
    }

    /// A place for one more connection of a port whose own share is `own`.
    pub(super) fn seat(&self, own: &Arc<Semaphore>) -> Option<Seat> {
        let _own = own.clone().try_acquire_owned().ok()?;
        let _all = self.connections.clone().try_acquire_owned().ok()?;
        Some(Seat { _all, _own })
    }
}
