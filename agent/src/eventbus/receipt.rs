//! Acknowledgements that are owed to a broker.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use rumqttc::{AsyncClient, Publish};

/// Says to a broker that a message is dealt with. Dropped, it is not said, and the broker sends the message again.
#[derive(Debug, Default)]
pub(crate) struct Receipt(Option<Box<Owed>>);

/// An acknowledgement, and the connection on which it is owed.
#[derive(Debug)]
struct Owed {
    client: AsyncClient,
    publish: Publish,
    connection: u64,
    connections: Connections,
}

/// Counts the connections that were lost: what came on one of them is not acknowledged on another.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections(Arc<AtomicU64>);

impl Connections {
    /// The connection is lost.
    pub(super) fn lost(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Receipt {
    /// Of a message that the broker waits for.
    pub(super) fn of(client: &AsyncClient, publish: &Publish, connections: &Connections) -> Self {
        // the acknowledgement needs no more of it
        let publish = Publish { payload: Bytes::new(), ..publish.clone() };
        Self(Some(Box::new(Owed {
            client: client.clone(),
            publish,
            connection: connections.now(),
            connections: connections.clone(),
        })))
    }

    /// Says it.
    pub(crate) fn give(self) {
        // on another connection it would be unasked for, which ends that; the broker sends the message again, and it is dealt
        // with once more
        if let Some(owed) = self.0
            && owed.connection == owed.connections.now()
        {
            let _ = owed.client.try_ack(&owed.publish);
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
        given.give();
        assert_eq!(acknowledged(), 1);
        connections.lost();
        late.give();
        assert_eq!(acknowledged(), 1);
        receipt().give();
        assert_eq!(acknowledged(), 2);
    }
}
