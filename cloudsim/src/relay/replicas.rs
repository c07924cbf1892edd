//! Opens streams to nodes that are connected to the relays of other replicas. A connection is opened when it is first needed, and is used
//! for all streams to the same replica.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use clock::HashMap;
use parking_lot::Mutex;
use quinn::{Connection, Endpoint};
use tokio::time::timeout;
use tracing::warn;

use super::stream::{Between, BiStream, Failure, not_connected, open_stream};
use crate::peers::{ATTEMPTS, PEER_NAME, Peers};

/// How long dialing a replica may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The relays of other replicas; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct ReplicaRelays {
    endpoint: Endpoint,
    peers: Peers,
    connections: Arc<Mutex<HashMap<SocketAddr, Connection>>>,
}

impl ReplicaRelays {
    /// Opens streams through `endpoint`, to the replicas that `peers` names.
    pub(super) fn new(endpoint: Endpoint, peers: Peers) -> Self {
        let connections = Arc::default();
        Self {
            endpoint,
            peers,
            connections,
        }
    }

    /// Opens a stream to the replica of the node `to`, which answers; the error is the reason for the node that asks.
    pub(super) async fn open(
        &self,
        to: &str,
        from: &str,
    ) -> Result<(Connection, BiStream), String> {
        let between = Between {
            from: from.to_owned(),
            to: to.to_owned(),
        };
        let mut failed = None;
        for _ in 0..ATTEMPTS {
            let Some(replica) = self.peers.relay(to, failed).await else {
                break;
            };
            let opened = async {
                let connection = self.connect(replica).await?;
                let stream = open_stream(&connection, &between).await?;
                Ok::<_, Failure>((connection, stream))
            };
            match opened.await {
                Ok(opened) => return Ok(opened),
                Err(error) => {
                    warn!(%replica, node = to, error, "failed to reach the relay of another replica");
                }
            }
            failed = Some(replica);
        }
        Err(not_connected(to))
    }

    /// Returns the connection to another replica.
    async fn connect(&self, replica: SocketAddr) -> Result<Connection, Failure> {
        let open = self.connections.lock().get(&replica).cloned();
        if let Some(connection) = open.filter(|open| open.close_reason().is_none()) {
            return Ok(connection);
        }
        let connection = timeout(CONNECT_TIMEOUT, self.endpoint.connect(replica, PEER_NAME)?).await;
        let connection =
            connection.map_err(|_| format!("no connection within {CONNECT_TIMEOUT:?}"))??;
        let mut connections = self.connections.lock();
        connections.retain(|_, open| open.close_reason().is_none());
        // a second one of the same moment lives as long as its streams
        connections.insert(replica, connection.clone());
        Ok(connection)
    }
}
