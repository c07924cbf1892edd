//! The messages that receivers in this process have not confirmed yet, and the acknowledgements that wait for them.

use std::collections::VecDeque;

use crate::{codec::encode::AckKind, message::QoS, reason::Reason};

/// The receivers of the message that is being routed.
#[derive(Debug)]
pub(super) struct Confirming {
    pub(super) token: u64,
    /// How many receivers have it.
    pub(super) receivers: usize,
}

/// A message that is not confirmed yet.
#[derive(Debug)]
pub(super) struct Unconfirmed {
    pub(super) session: u64,
    pub(super) packet: u16,
    pub(super) qos: QoS,
    /// How many receivers have not confirmed it.
    pub(super) remaining: usize,
}

/// A PUBACK or PUBREC that waits for its turn.
#[derive(Debug)]
pub(crate) struct WaitingAck {
    pub(super) kind: AckKind,
    pub(super) packet: u16,
    pub(super) reason: Reason,
    /// The message that is not confirmed yet; `None` if only earlier acknowledgements are in the way.
    pub(super) token: Option<u64>,
}

/// The acknowledgements of a connection that wait, in order.
pub(crate) type WaitingAcks = VecDeque<WaitingAck>;
