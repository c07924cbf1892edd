//! Acknowledgements of messages to a broker.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use rumqttc::{AsyncClient, Publish};

/// Acknowledges a message to the broker. If it is dropped, the broker sends the message again.
#[derive(Debug, Default)]
pub(crate) struct Receipt(Option<Box<PendingAck>>);

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
    pub(super) fn lost(&self) {
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
        let publish = Publish { payload: Bytes::new(), ..publish.clone() };
        Self(Some(Box::new(PendingAck {
            client: client.clone(),
            publish,
            connection: connections.current(),
            connections: connections.clone(),
        })))
    }

    /// Sends the acknowledgement.
    pub(crate) fn acknowledge(self) {
        // on another connection the acknowledgement would be a protocol error; the broker sends the message again, and it is
        // handled once more
        if let Some(pending) = self.0
            && pending.connection == pending.connections.current()
        {
            let _ = pending.client.try_ack(&pending.publish);
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
        connections.lost();
        late.acknowledge();
        assert_eq!(acknowledged(), 1);
        receipt().acknowledge();
        assert_eq!(acknowledged(), 2);
    }
}
