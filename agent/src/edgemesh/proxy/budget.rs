//! Limits of sockets and connections: in all, of one client, and of one port of a Service, so that none of them takes everything, and all
//! together leave file descriptors for the rest of the agent.

use std::{net::IpAddr, sync::Arc};

use limits::{NoShare, Share, ShareLimits, Shares};
use nix::sys::resource::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::edgemesh::metrics::MeshMetrics;

/// The most connections at a time, if the process may have that many files: each needs two.
const MAX_CONNECTIONS: usize = 10_000;
/// The most UDP flows at a time; each needs one file.
const MAX_FLOWS: usize = 4096;
/// The most listening sockets.
const MAX_LISTENERS: usize = 8192;
/// How many files are left to the rest of the agent.
const SPARE_FILES: usize = 1024;
/// One client gets at most a quarter of all connections, and of all flows, so that three of them leave room for others.
const CLIENT_FRACTION: usize = 4;

/// The limits, and what of them is in use; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    connections: Shares<IpAddr>,
    flows: Shares<IpAddr>,
    /// The most connections of one port of a Service.
    pub(super) port_share: usize,
    /// The most listening sockets.
    pub(super) max_listeners: usize,
    pub(super) metrics: Arc<MeshMetrics>,
}

/// Allows one connection; dropping it makes room for another.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    _of_client: Share<IpAddr>,
    _of_port: OwnedSemaphorePermit,
}

impl Budget {
    /// Derives the limits from the number of files that this process may open.
    pub(super) fn of_process(metrics: Arc<MeshMetrics>) -> Self {
        let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        Self::of_files(usize::try_from(files).unwrap_or(usize::MAX), metrics)
    }

    /// Derives the limits from a number of files.
    fn of_files(files: usize, metrics: Arc<MeshMetrics>) -> Self {
        let files = files.saturating_sub(SPARE_FILES);
        let max_listeners = MAX_LISTENERS.min(files / 4).max(64);
        let flows = MAX_FLOWS.min(files / 8).max(64);
        let connections = MAX_CONNECTIONS
            .min(files.saturating_sub(max_listeners + flows) / 2)
            .max(64);
        Self {
            max_listeners,
            ..Self::new(connections, flows, metrics)
        }
    }

    /// Sets the limits of connections and of UDP flows in all.
    pub(super) fn new(connections: usize, flows: usize, metrics: Arc<MeshMetrics>) -> Self {
        let shares = |all: usize| {
            Shares::new(ShareLimits {
                all,
                each: (all / CLIENT_FRACTION).max(1),
            })
        };
        Self {
            connections: shares(connections),
            flows: shares(flows),
            port_share: (connections / 2).max(1),
            max_listeners: MAX_LISTENERS,
            metrics,
        }
    }

    /// Admits one more connection of a client to the port that `port` limits; `None` where a limit is reached.
    pub(super) fn admit_connection(
        &self,
        client: IpAddr,
        port: &Arc<Semaphore>,
    ) -> Option<ConnectionPermit> {
        let of_port = port.clone().try_acquire_owned().ok()?;
        let of_client = self.connections.admit(client).ok()?;
        Some(ConnectionPermit {
            _of_client: of_client,
            _of_port: of_port,
        })
    }

    /// Admits one more UDP flow of a client.
    pub(super) fn admit_flow(&self, client: IpAddr) -> Result<Share<IpAddr>, NoShare> {
        self.flows.admit(client)
    }

    /// Returns the number of open connections.
    #[cfg(test)]
    pub(super) fn connection_count(&self) -> usize {
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
            let permits: Vec<_> = (0..)
                .map_while(|number| budget.admit_connection(client(number), &port))
                .collect();
            let flows: Vec<_> = (0..)
                .map_while(|number| budget.admit_flow(client(number)).ok())
                .collect();
            let needed = budget.max_listeners + flows.len() + 2 * permits.len();
            assert!(needed <= files - SPARE_FILES, "{needed} of {files}");
            assert!(
                needed >= 26_000.min((files - SPARE_FILES) / 2),
                "{needed} of {files} are used"
            );
        }
    }

    #[test]
    fn one_client_leaves_room_for_others() {
        let budget = Budget::new(100, 100, Arc::default());
        let port = Arc::new(Semaphore::new(100));
        let [crowd, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let permits: Vec<_> = (0..100)
            .map_while(|_| budget.admit_connection(crowd, &port))
            .collect();
        let flows: Vec<_> = (0..100)
            .map_while(|_| budget.admit_flow(crowd).ok())
            .collect();
        assert_eq!((permits.len(), flows.len()), (25, 25));
        assert!(
            budget.admit_connection(other, &port).is_some() && budget.admit_flow(other).is_ok()
        );
        assert_eq!(
            port.available_permits(),
            75,
            "what is not had is given back"
        );
    }
}
