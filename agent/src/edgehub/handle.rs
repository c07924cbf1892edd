//! What other rooms hold of this one.

use std::time::Duration;

use tokio::sync::{mpsc, watch};
use wire::Message;

use super::{lanes::Offered, queue::Queue as Lanes, traffic::Traffic, waiters::Waiters};
use crate::rt::{Metric, Queue};

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// No connection.
    Down,
    /// Connected; the number counts connections since start.
    Up(u64),
}

/// There is no connection, or it broke before the answer came. Nothing is lost by it: state stays in the store and is
/// reported when the link is back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// Not connected.
    #[error("the cloud is not connected")]
    Offline,
    /// A newer report on the same object took its place before it was sent.
    #[error("a newer report on the same object was sent instead")]
    Superseded,
    /// No answer in time.
    #[error("the cloud did not answer within {0:?}")]
    Timeout(Duration),
}

/// The messages of the cloud, for their one reader.
#[derive(Debug)]
pub struct Inbound(pub(super) mpsc::Receiver<Message>);

impl Inbound {
    /// The next message; `None` when the hub has ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<Message> {
        self.0.recv().await
    }
}

/// The handle: sends to the cloud.
#[derive(Clone, Debug)]
pub struct EdgeHub {
    pub(super) queue: Lanes,
    pub(super) waiters: Waiters,
    pub(super) link: watch::Receiver<Link>,
    pub(super) traffic: Traffic,
    pub(super) inbox: mpsc::WeakSender<Message>,
}

impl EdgeHub {
    /// The state of the connection, to read or to await.
    pub fn link(&self) -> watch::Receiver<Link> {
        self.link.clone()
    }

    /// Whether there is a connection now.
    pub fn is_up(&self) -> bool {
        *self.link.borrow() != Link::Down
    }

    /// What went to and fro.
    pub fn traffic(&self) -> Traffic {
        self.traffic.clone()
    }

    /// How full its queues are: those to the cloud, and the one from it.
    pub(crate) fn queues(&self) -> Vec<Queue> {
        let inbox = Queue::of("edgehub/inbox", &self.inbox);
        self.queue.queues().into_iter().chain(inbox).collect()
    }

    /// The connection as figures.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let name = "edgehub_connected";
        let connected = Metric::gauge(name, "Whether the node is connected to the cloud (1) or not (0).");
        let name = "edgehub_connections_total";
        let connections = Metric::counter(
            name,
            "Connections to the cloud since the start; all but the first are reconnects.",
        );
        vec![connected.of(self.is_up().into()), connections.of(self.traffic.connections())]
    }

    /// Sends without waiting for an answer; waits for room where too much waits already.
    pub async fn send(&self, mut message: Message) -> Result<(), Unreachable> {
        loop {
            let room = self.queue.room();
            match self.offer(message)? {
                None => return Ok(()),
                Some(full) => message = *full,
            }
            room.await;
        }
    }

    /// Sends and waits until it was written to the connection, for what is never answered. An error: it may have been written all
    /// the same, just before the connection ended.
    pub(crate) async fn deliver(&self, message: Message) -> Result<(), Unreachable> {
        let mut link = self.link.clone();
        let connection = *link.borrow_and_update();
        let written = self.waiters.until_written(&message.header.msg_id);
        tokio::select! {
            biased;
            // cancel-safe, both: whoever gives this up sends the message again
            delivered = async {
                self.send(message).await?;
                written.await.map_err(|_| Unreachable::Offline)
            } => delivered,
            _ = link.wait_for(|link| *link != connection) => Err(Unreachable::Offline),
        }
    }

    /// Sends and waits for the message that answers it.
    pub async fn request(&self, message: Message, timeout: Duration) -> Result<Message, Unreachable> {
        let waiting = self.waiters.register(&message.header.msg_id);
        self.send(message).await?;
        tokio::time::timeout(timeout, waiting).await.unwrap_or(Err(Unreachable::Timeout(timeout)))
    }

    /// Gives the message back where there is no room.
    fn offer(&self, message: Message) -> Result<Option<Box<Message>>, Unreachable> {
        if !self.is_up() {
            return Err(Unreachable::Offline);
        }
        let full = match self.queue.offer(message) {
            Offered::Taken => None,
            Offered::Instead(id) => {
                self.waiters.supersede(&id);
                None
            }
            Offered::Full(message) => Some(message),
        };
        // it may have come after the queue was emptied for the end of the connection: the next one begins by emptying it
        if self.is_up() { Ok(full) } else { Err(Unreachable::Offline) }
    }
}
