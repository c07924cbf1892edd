//! A fake cloud for tests: the other end of a connection, as the test wants it.

use clock::Instant;

use componentbase::Link;
use limits::Rate;
use tokio::sync::{mpsc, watch};
use wire::Message;

use super::{EdgeHub, INBOX_CAPACITY, Inbound, queue::Queue, traffic::Traffic, waiters::Waiters};

/// The other end of the connection.
#[derive(Debug)]
pub(crate) struct FakeCloud {
    queue: Queue,
    waiters: Waiters,
    link: watch::Sender<Link>,
    inbox: mpsc::Sender<Box<Message>>,
    connections: u64,
}

/// Returns a hub that is not connected yet, and its other end.
pub(crate) fn fake_cloud() -> (EdgeHub, Inbound, FakeCloud) {
    let (inbox, inbound) = mpsc::channel(INBOX_CAPACITY);
    let (link, state) = watch::channel(Link::Down);
    let (queue, waiters) = (Queue::default(), Waiters::default());
    let hub = EdgeHub {
        queue: queue.clone(),
        waiters: waiters.clone(),
        link: state,
        traffic: Traffic::default(),
        inbox: inbox.downgrade(),
    };
    (
        hub,
        Inbound(inbound),
        FakeCloud {
            queue,
            waiters,
            link,
            inbox,
            connections: 0,
        },
    )
}

impl FakeCloud {
    /// Connects.
    pub(crate) fn up(&mut self) {
        self.connections += 1;
        self.queue.clear();
        self.link.send_replace(Link::Up(self.connections));
    }

    /// Cuts the connection: messages under way are lost.
    pub(crate) fn down(&self) {
        self.link.send_replace(Link::Down);
        self.queue.clear();
        self.waiters.abandon();
    }

    /// Returns the next message of the node.
    pub(crate) async fn next(&self) -> Message {
        let message = self.queue.next(&mut Rate::new(0, 0, Instant::now())).await;
        self.waiters.record_written(&message.header.msg_id);
        message
    }

    /// Sends a message of the cloud: to the request that it answers, else to the inbox, which drops it without a reader.
    pub(crate) async fn say(&self, message: Message) {
        if let Err(message) = self.waiters.deliver(message) {
            self.inbox.send(message).await.ok();
        }
    }
}
