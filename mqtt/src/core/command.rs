//! What the broker is asked.

use std::{collections::VecDeque, net::IpAddr, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::local_receiver::Delivery;
use crate::{
    codec::{Connect, Packet},
    error::PublishError,
    message::Message,
    outbox::Outbox,
    reason::Fault,
};

/// Where a publisher of this process waits for the outcome.
pub(crate) type Done = oneshot::Sender<Result<(), PublishError>>;

/// What the broker is asked.
#[derive(Debug)]
pub(crate) enum Command {
    /// A connection's first packet.
    Connect {
        connection: u64,
        connect: Box<Connect>,
        certificate: Option<Arc<str>>,
        peer: IpAddr,
        outbox: Arc<Outbox>,
    },
    /// The packets that followed.
    Packets(Batch),
    /// A connection has ended; with a fault, its client is told.
    Closed { connection: u64, fault: Option<Fault> },
    /// Everything that was written to a connection has left.
    Drained { connection: u64 },
    /// This process publishes; above QoS 0 it is told when that is done.
    Publish { message: Message, done: Option<Done> },
    /// This process subscribes.
    Subscribe { filter: String, receiver: Delivery, done: oneshot::Sender<u64> },
    /// A receiver of this process hears another filter, or one no more.
    Filter { receiver: u64, filter: String, on: bool, done: oneshot::Sender<()> },
}

/// Batches of one connection that keep it from reading on: one being worked on, one being filled.
pub(crate) const BATCHES: usize = 2;

/// Packets of one connection; the connection reads on when the permit is dropped.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) connection: u64,
    pub(crate) packets: VecDeque<Packet>,
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// Whether a packet was dealt with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Done,
    /// A subscriber has no room: the packet is to come again.
    Wait,
}
