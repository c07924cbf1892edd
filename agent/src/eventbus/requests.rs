//! The requests about devices that come from brokers, for DeviceTwin.

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use wire::topic::Topic;

use super::receipt::Receipt;

/// An event from a broker for DeviceTwin.
#[derive(Debug)]
pub(crate) enum Received {
    /// A message about a device or a node.
    Message {
        /// The topic.
        topic: Topic,
        /// The payload.
        payload: Bytes,
        /// Acknowledges the message, when its changes are on disk.
        receipt: Receipt,
    },
    /// A broker is connected again, or has dropped something: earlier publications may have been missed.
    Connected,
}

/// The requests about devices, for their one reader.
#[derive(Debug)]
pub struct Requests(Option<(mpsc::Receiver<Received>, watch::Receiver<u64>)>);

impl Requests {
    pub(super) fn new(
        received: mpsc::Receiver<Received>,
        connections: watch::Receiver<u64>,
    ) -> Self {
        Self(Some((received, connections)))
    }

    /// Returns no requests ever: a node without MQTT.
    pub fn none() -> Self {
        Self(None)
    }

    /// Waits for requests and appends up to `limit` of them to `into`. Returns false when no more will come. Cancel-safe.
    pub(crate) async fn next(&mut self, into: &mut Vec<Received>, limit: usize) -> bool {
        let Some((received, connections)) = &mut self.0 else {
            return false;
        };
        clock::select! {
            // cancel-safe: nothing is taken unless the arm wins
            count = received.recv_many(into, limit) => count > 0,
            Ok(()) = connections.changed() => {
                into.push(Received::Connected);
                true
            }
        }
    }
}
