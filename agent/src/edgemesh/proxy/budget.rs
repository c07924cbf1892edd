//! How many sockets and connections there may be at a time: in all, of one client, and for one port of a Service, so that none of them
//! takes everything, and all of them together leave files for the rest of the agent.

use std::{net::IpAddr, sync::Arc};

use limits::{NoShare, Share, ShareLimits, Shares};
use nix::sys::resource::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::edgemesh::figures::Figures;

/// Connections at a time, where the process may have files enough: each needs two.
const CONNECTIONS: usize = 10_000;
/// Clients of UDP at a time; each needs one file.
const FLOWS: usize = 4096;
/// Sockets that are listened to.
const LISTENERS: usize = 8192;
/// Files that are left to the rest of the agent.
const SPARE_FILES: usize = 1024;
/// One client has a quarter of all connections at most, and of all flows, so that three of them leave room.
const CLIENTS: usize = 4;

/// The shares of all; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    connections: Shares<IpAddr>,
    flows: Shares<IpAddr>,
    /// Connections of one port of a Service.
    pub(super) port_share: usize,
    /// Sockets that are listened to.
    pub(super) max_listeners: usize,
    pub(super) figures: Arc<Figures>,
}

/// A connection's place; it is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    _of_client: Share<IpAddr>,
    _of_port: OwnedSemaphorePermit,
}

impl Budget {
    /// As much as this process may have files for.
    pub(super) fn of_process(figures: Arc<Figures>) -> Self {
        let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        Self::of_files(usize::try_from(files).unwrap_or(usize::MAX), figures)
    }

    /// As much as there are files for.
    fn of_files(files: usize, figures: Arc<Figures>) -> Self {
        let files = files.saturating_sub(SPARE_FILES);
        let max_listeners = LISTENERS.min(files / 4).max(64);
        let flows = FLOWS.min(files / 8).max(64);
        let connections = CONNECTIONS.min(files.saturating_sub(max_listeners + flows) / 2).max(64);
        Self { max_listeners, ..Self::new(connections, flows, figures) }
    }

    /// So many connections, and clients of UDP, in all.
    pub(super) fn new(connections: usize, flows: usize, figures: Arc<Figures>) -> Self {
        let shares = |all: usize| Shares::new(ShareLimits { all, each: (all / CLIENTS).max(1) });
        Self {
            connections: shares(connections),
            flows: shares(flows),
            port_share: (connections / 2).max(1),
            max_listeners: LISTENERS,
            figures,
        }
    }

    /// A place for one more connection of a client to the port whose share is `port`.
    pub(super) fn connection(&self, client: IpAddr, port: &Arc<Semaphore>) -> Option<Seat> {
        let of_port = port.clone().try_acquire_owned().ok()?;
        let of_client = self.connections.admit(client).ok()?;
        Some(Seat { _of_client: of_client, _of_port: of_port })
    }

    /// A place for one more UDP socket of a client.
    pub(super) fn flow(&self, client: IpAddr) -> Result<Share<IpAddr>, NoShare> {
        self.flows.admit(client)
    }

    /// Connections that there are.
    #[cfg(test)]
    pub(super) fn connected(&self) -> usize {
        self.connections.under_way()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_together_leave_files_for_the_rest_of_the_agent() {
        for files in [2048, 20_000, 65_536, 1_048_576] {
            let budget = Budget::of_files(files, Arc::default());
            let client = |number: usize| IpAddr::from((number as u128).to_be_bytes());
            let port = Arc::new(Semaphore::new(1_000_000));
            let seats: Vec<_> = (0..).map_while(|number| budget.connection(client(number), &port)).collect();
            let flows: Vec<_> = (0..).map_while(|number| budget.flow(client(number)).ok()).collect();
            let needed = budget.max_listeners + flows.len() + 2 * seats.len();
            assert!(needed <= files - SPARE_FILES, "{needed} of {files}");
            assert!(needed >= 26_000.min((files - SPARE_FILES) / 2), "{needed} of {files} are used");
        }
    }

    #[test]
    fn one_client_leaves_room_for_others() {
        let budget = Budget::new(100, 100, Arc::default());
        let port = Arc::new(Semaphore::new(100));
        let [crowd, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let seats: Vec<_> = (0..100).map_while(|_| budget.connection(crowd, &port)).collect();
        let flows: Vec<_> = (0..100).map_while(|_| budget.flow(crowd).ok()).collect();
        assert_eq!((seats.len(), flows.len()), (25, 25));
        assert!(budget.connection(other, &port).is_some() && budget.flow(other).is_ok());
        assert_eq!(port.available_permits(), 75, "what is not had is given back");
    }
}
