//! A connection of which a test holds the other end: the cloud as that test wants it.

use std::time::Instant;

use tokio::sync::{mpsc, watch};
use wire::Message;

use super::{EdgeHub, INBOX, Inbound, Link, queue::Queue, rate::Rate, traffic::Traffic, waiters::Waiters};

/// The other end.
#[derive(Debug)]
pub(crate) struct Line {
    queue: Queue,
    waiters: Waiters,
    link: watch::Sender<Link>,
    inbox: mpsc::Sender<Message>,
    connections: u64,
}

/// A hub that is not connected yet, and the other end.
pub(crate) fn line() -> (EdgeHub, Inbound, Line) {
    let (inbox, inbound) = mpsc::channel(INBOX);
    let (link, state) = watch::channel(Link::Down);
    let (queue, waiters) = (Queue::default(), Waiters::default());
    let hub = EdgeHub {
        queue: queue.clone(),
        waiters: waiters.clone(),
        link: state,
        traffic: Traffic::default(),
        inbox: inbox.downgrade(),
    };
    (hub, Inbound(inbound), Line { queue, waiters, link, inbox, connections: 0 })
}

impl Line {
    /// Connects.
    pub(crate) fn up(&mut self) {
        self.connections += 1;
        self.queue.clear();
        self.link.send_replace(Link::Up(self.connections));
    }

    /// Cuts the connection: what is under way is lost.
    pub(crate) fn down(&self) {
        self.link.send_replace(Link::Down);
        self.queue.clear();
        self.waiters.abandon();
    }

    /// The next message of the node.
    pub(crate) async fn next(&self) -> Message {
        let message = self.queue.next(&mut Rate::new(0, 0, Instant::now())).await;
        self.waiters.written(&message.header.msg_id);
        message
    }

    /// A message of the cloud: an answer to whoever waits for it, else one that nobody asked for.
    pub(crate) async fn say(&self, message: Message) {
        if let Err(message) = self.waiters.deliver(message) {
            self.inbox.send(*message).await.unwrap();
        }
    }
}
