//! The commands to the broker.

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

/// The channel on which a publisher of this process gets the result.
pub(crate) type Done = oneshot::Sender<Result<(), PublishError>>;

/// A command to the broker.
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
    /// The packets after CONNECT.
    Packets(Batch),
    /// A connection has ended; if there is a fault, its client is notified.
    Closed {
        connection: u64,
        fault: Option<Fault>,
    },
    /// Everything that was written to a connection has been sent.
    Drained { connection: u64 },
    /// This process publishes; above QoS 0 `done` gets the result.
    Publish {
        message: Message,
        done: Option<Done>,
    },
    /// This process subscribes; with `confirms`, publishers wait until it has confirmed their messages.
    Subscribe {
        filter: String,
        receiver: Delivery,
        confirms: bool,
        done: oneshot::Sender<u64>,
    },
    /// A receiver of this process adds a filter, or removes one.
    Filter {
        receiver: u64,
        filter: String,
        on: bool,
        done: oneshot::Sender<()>,
    },
}

/// The batches of one connection that stop it from reading on: one being processed, one being filled.
pub(crate) const BATCHES: usize = 2;

/// Packets of one connection, which reads on when the permit is dropped.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) connection: u64,
    pub(crate) packets: VecDeque<Packet>,
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// Whether a packet was processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Done,
    /// A subscriber has no room: the packet must be processed again later.
    Wait,
}
