//! Acknowledgements of messages to a broker: given when a message is stored or was sent to the cloud, so that its broker, or its
//! publisher, keeps it until then.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use mqtt::Confirmation;
use rumqttc::{AsyncClient, Publish};

/// Acknowledges a message to the broker. If it is dropped, the message is sent again: by the external broker, or by the client of
/// the internal one.
#[derive(Debug, Default)]
pub(crate) struct Receipt(Awaiting);

/// Who waits for the acknowledgement.
#[derive(Debug, Default)]
enum Awaiting {
    /// Nobody: the message has QoS 0, or is this node's own.
    #[default]
    Nobody,
    /// The external broker.
    Broker(Box<PendingAck>),
    /// A client of the internal broker.
    Client(Confirmation),
}

/// An outstanding acknowledgement, and its connection.
#[derive(Debug)]
struct PendingAck {
    client: AsyncClient,
    publish: Publish,
    connection: u64,
    connections: Connections,
}

/// Counts lost connections: a message of one connection is not acknowledged on another.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections(Arc<AtomicU64>);

impl Connections {
    /// Records that the connection was lost.
    pub(super) fn mark_lost(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn current(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Receipt {
    /// Creates the receipt of a message that the broker waits for.
    pub(super) fn of(client: &AsyncClient, publish: &Publish, connections: &Connections) -> Self {
        // the acknowledgement needs only the header
        let publish = Publish {
            payload: Bytes::new(),
            ..publish.clone()
        };
        Self(Awaiting::Broker(Box::new(PendingAck {
            client: client.clone(),
            publish,
            connection: connections.current(),
            connections: connections.clone(),
        })))
    }

    /// Creates the receipt of a message of the internal broker.
    pub(super) fn of_client(confirmation: Option<Confirmation>) -> Self {
        Self(confirmation.map_or(Awaiting::Nobody, Awaiting::Client))
    }

    /// Reports whether somebody keeps the message until it is acknowledged.
    pub(super) fn is_awaited(&self) -> bool {
        !matches!(self.0, Awaiting::Nobody)
    }

    /// Sends the acknowledgement.
    pub(crate) fn acknowledge(self) {
        match self.0 {
            Awaiting::Nobody => {}
            Awaiting::Client(confirmation) => confirmation.confirm(),
            // on another connection the acknowledgement would be a protocol error; the broker sends the message again, and it is
            // handled once more
            Awaiting::Broker(pending) => {
                if pending.connection == pending.connections.current() {
                    let _ = pending.client.try_ack(&pending.publish);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rumqttc::{Broker, MqttOptions, QoS};

    use super::*;

    #[test]
    fn a_receipt_counts_on_its_own_connection_only() {
        let options = MqttOptions::new("agent", Broker::tcp("localhost", 1));
        let (client, events) = AsyncClient::builder(options).capacity(2).build();
        let acknowledged = || events.diagnostics().queues.control_requests_rx_len;
        let connections = Connections::default();
        let publish = Publish::new("a", QoS::AtLeastOnce, Vec::new());
        let receipt = || Receipt::of(&client, &publish, &connections);
        let (given, late) = (receipt(), receipt());
        given.acknowledge();
        assert_eq!(acknowledged(), 1);
        connections.mark_lost();
        late.acknowledge();
        assert_eq!(acknowledged(), 1);
        receipt().acknowledge();
        assert_eq!(acknowledged(), 2);
    }
}
