//! The handle of EdgeHub for other modules.

use std::time::Duration;

use componentbase::Link;
use componentbase::{Metric, Queue};
use tokio::sync::{mpsc, watch};
use wire::Message;

use super::{
    lanes::Offered, queue::Queue as Lanes, traffic::Traffic, traffic_metrics,
    unreachable::Unreachable, waiters::Waiters,
};

/// The messages of the cloud, for their one reader.
#[derive(Debug)]
pub struct Inbound(pub(super) mpsc::Receiver<Box<Message>>);

impl Inbound {
    /// Returns the next message; `None` when EdgeHub has ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<Message> {
        self.0.recv().await.map(|message| *message)
    }
}

/// The handle, which sends to the cloud.
#[derive(Clone, Debug)]
pub struct EdgeHub {
    pub(super) queue: Lanes,
    pub(super) waiters: Waiters,
    pub(super) link: watch::Receiver<Link>,
    pub(super) traffic: Traffic,
    pub(super) inbox: mpsc::WeakSender<Box<Message>>,
}

impl EdgeHub {
    /// Returns the state of the connection as a watch channel.
    pub fn link(&self) -> watch::Receiver<Link> {
        self.link.clone()
    }

    /// Reports whether there is a connection now.
    pub fn is_up(&self) -> bool {
        *self.link.borrow() != Link::Down
    }

    /// Returns the traffic counters.
    pub fn traffic(&self) -> Traffic {
        self.traffic.clone()
    }

    /// Reports how full the queues to and from the cloud are.
    pub(crate) fn queues(&self) -> Vec<Queue> {
        let inbox = Queue::of("edgehub/inbox", &self.inbox);
        self.queue.queues().into_iter().chain(inbox).collect()
    }

    /// Returns the metrics of the traffic and of the connection.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let name = "edgehub_connected";
        let connected = Metric::gauge(
            name,
            "Whether the node is connected to the cloud (1) or not (0).",
        );
        let name = "edgehub_connections_total";
        let connections = Metric::counter(
            name,
            "Connections to the cloud since the start; all but the first are reconnects.",
        );
        let traffic = traffic_metrics::metrics(&self.traffic.flows(), self.traffic.octets());
        let connection = [
            connected.of(self.is_up().into()),
            connections.of(self.traffic.connections()),
        ];
        traffic.into_iter().chain(connection).collect()
    }

    /// Sends without waiting for an answer; waits for space if too many messages wait already.
    pub async fn send(&self, mut message: Message) -> Result<(), Unreachable> {
        loop {
            let room = self.queue.space();
            match self.offer(message)? {
                None => return Ok(()),
                Some(full) => message = *full,
            }
            room.await;
        }
    }

    /// Sends a message that has no answer, and waits until it was written to the connection. After an error it may have been
    /// written all the same, just before the connection ended.
    pub(crate) async fn deliver(&self, message: Message) -> Result<(), Unreachable> {
        let mut link = self.link.clone();
        let connection = *link.borrow_and_update();
        let written = self.waiters.until_written(&message.header.msg_id);
        clock::select! {
            biased;
            // cancel-safe: a caller that gives up sends the message again
            delivered = async {
                self.send(message).await?;
                written.await.map_err(|_| Unreachable::Offline)
            } => delivered,
            _ = link.wait_for(|link| *link != connection) => Err(Unreachable::Offline),
        }
    }

    /// Sends and waits for the answer.
    pub async fn request(
        &self,
        message: Message,
        timeout: Duration,
    ) -> Result<Message, Unreachable> {
        let waiting = self.waiters.register(&message.header.msg_id);
        self.send(message).await?;
        tokio::time::timeout(timeout, waiting)
            .await
            .unwrap_or(Err(Unreachable::Timeout(timeout)))
    }

    /// Queues the message, or returns it if there is no space.
    fn offer(&self, message: Message) -> Result<Option<Box<Message>>, Unreachable> {
        if !self.is_up() {
            return Err(Unreachable::Offline);
        }
        let full = match self.queue.offer(message) {
            Offered::Queued => None,
            Offered::Replaced(id) => {
                self.waiters.supersede(&id);
                None
            }
            Offered::Full(message) => Some(message),
        };
        // the queue may have been emptied for the end of the connection before: the next connection starts by emptying it
        if self.is_up() {
            Ok(full)
        } else {
            Err(Unreachable::Offline)
        }
    }
}
