//! One client's session, and its connection while there is one.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    net::IpAddr,
    sync::Arc,
};

use bytes::BytesMut;

use super::{kept::ENTRY_BYTES, timers::Deadline, unconfirmed::WaitingAcks};
use crate::{
    access::Identity,
    codec::{
        Version, Will,
        encode::{self, Outgoing},
    },
    config::Limits,
    holder::Holder,
    outbox::Outbox,
    reason::Reason,
    store::{Queued, Subscription},
};

/// The state of a client identifier.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) who: Identity,
    /// How long the session is kept without its client, seconds.
    pub(crate) expiry: u32,
    /// Whether the session is on disk.
    pub(crate) durable: bool,
    pub(crate) connection: Option<Connection>,
    pub(crate) subscriptions: HashMap<Arc<str>, Subscription>,
    /// The messages that wait to be sent.
    pub(crate) pending: VecDeque<Queued>,
    /// The sent messages in order; the first `on_wire` of them were sent on this connection.
    pub(crate) inflight: VecDeque<Inflight>,
    pub(crate) on_wire: usize,
    /// The weight of `pending` and `inflight`.
    pub(crate) bytes: usize,
    /// The QoS 2 messages that were accepted and not yet released.
    pub(crate) incoming: HashSet<u16>,
    /// The QoS 2 messages that receivers of this process have not confirmed yet, with their tokens.
    pub(crate) unconfirmed: HashMap<u16, u64>,
    /// The will of a lost client, until its delay has passed.
    pub(crate) will: Option<Will>,
    /// A counter of connections; a timer of an earlier connection is void.
    pub(crate) generation: u64,
    /// The address of the last connection; `None` if there was none since the broker's start.
    pub(crate) peer: Option<IpAddr>,
    /// When the client left, milliseconds since 1970; 0 if before the broker's start.
    pub(crate) left: u64,
    /// The bytes of the subscriptions.
    pub(super) filter_bytes: usize,
    /// The client whose quota counts what the session keeps.
    pub(super) holder: Option<Holder>,
    /// The bytes that count against that quota.
    pub(super) kept: usize,
    /// The deadlines that apply while the client is away.
    pub(super) deadlines: Vec<Deadline>,
    next_id: u16,
    used_ids: HashSet<u16>,
}

/// A message that was sent and not yet acknowledged.
#[derive(Debug)]
pub(crate) struct Inflight {
    pub(crate) id: u16,
    pub(crate) sequence: u64,
    /// The message; `None` if the client has it (PUBREC) and PUBREL is due.
    pub(crate) queued: Option<Queued>,
}

/// A connected client.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: u64,
    pub(crate) version: Version,
    pub(crate) outbox: Arc<Outbox>,
    /// The bytes that this round has written.
    pub(crate) staged: BytesMut,
    /// The acknowledgements of the client's publications that wait.
    pub(crate) acks: WaitingAcks,
    pub(crate) will: Option<Will>,
    /// The most messages above QoS 0 that may be unacknowledged.
    pub(crate) window: usize,
    pub(crate) maximum_packet: usize,
    pub(crate) problem_information: bool,
    pub(crate) aliases_in: HashMap<u16, Arc<str>>,
    /// The bytes of `aliases_in`.
    pub(super) alias_bytes: usize,
    aliases_out: HashMap<Arc<str>, u16>,
    alias_maximum: usize,
}

/// The result of writing a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    Yes,
    /// The message is larger than the client accepts.
    TooLarge,
}

impl Session {
    /// Creates a session.
    pub(crate) fn new(who: Identity, expiry: u32) -> Self {
        Self {
            who,
            expiry,
            durable: false,
            connection: None,
            subscriptions: HashMap::new(),
            pending: VecDeque::new(),
            inflight: VecDeque::new(),
            on_wire: 0,
            bytes: 0,
            incoming: HashSet::new(),
            unconfirmed: HashMap::new(),
            will: None,
            generation: 0,
            peer: None,
            left: 0,
            filter_bytes: 0,
            holder: None,
            kept: 0,
            deadlines: Vec::new(),
            next_id: 0,
            used_ids: HashSet::new(),
        }
    }

    /// Returns an unused packet identifier. There are 65,535, and fewer messages may be in flight.
    pub(crate) fn take_id(&mut self) -> u16 {
        loop {
            self.next_id = self.next_id.wrapping_add(1);
            if self.next_id != 0 && self.used_ids.insert(self.next_id) {
                return self.next_id;
            }
        }
    }

    /// Adds a message in flight, as it was before a restart of the broker.
    pub(crate) fn restore_inflight(&mut self, inflight: Inflight) {
        self.used_ids.insert(inflight.id);
        self.next_id = inflight.id;
        self.inflight.push_back(inflight);
    }

    /// Returns the position of the message that was sent as `id` on this connection.
    pub(crate) fn position(&self, id: u16) -> Option<usize> {
        self.inflight
            .iter()
            .take(self.on_wire)
            .position(|inflight| inflight.id == id)
    }

    /// Removes the finished message at `position`.
    pub(crate) fn finish(&mut self, position: usize) -> Option<Inflight> {
        let done = self.inflight.remove(position)?;
        self.used_ids.remove(&done.id);
        if position < self.on_wire {
            self.on_wire -= 1;
        }
        Some(done)
    }

    /// Reports whether the client has not reconnected since `generation`.
    pub(super) fn is_away(&self, generation: u64) -> bool {
        self.connection.is_none() && self.generation == generation
    }

    /// Returns the bytes of what is kept besides queued messages.
    pub(super) fn bytes_kept(&self) -> usize {
        let connection = self.connection.as_ref();
        let will = self.will.as_ref().or_else(|| connection?.will.as_ref());
        self.filter_bytes
            + will.map_or(0, Will::weight)
            + connection.map_or(0, |connection| connection.alias_bytes)
    }

    /// Adds or replaces a subscription; returns the one that it replaces.
    pub(super) fn subscribe(
        &mut self,
        filter: Arc<str>,
        subscription: Subscription,
    ) -> Option<Subscription> {
        let bytes = filter.len() + ENTRY_BYTES;
        let old = self.subscriptions.insert(filter, subscription);
        if old.is_none() {
            self.filter_bytes += bytes;
        }
        old
    }

    /// Removes a subscription; returns false if there was none.
    pub(super) fn unsubscribe(&mut self, filter: &str) -> bool {
        let is_removed = self.subscriptions.remove(filter).is_some();
        if is_removed {
            self.filter_bytes -= filter.len() + ENTRY_BYTES;
        }
        is_removed
    }

    /// Returns the number of messages that count against the limit.
    pub(crate) fn queued_count(&self) -> usize {
        self.pending.len() + self.inflight.len()
    }

    /// Reports whether one more message of `weight` would exceed the limits.
    pub(crate) fn is_full(&self, weight: usize, limits: &Limits) -> bool {
        self.queued_count() >= limits.queued_messages || self.bytes + weight > limits.queued_bytes
    }
}

impl Connection {
    /// Creates a connection whose CONNECT was accepted.
    pub(crate) fn new(
        id: u64,
        outbox: Arc<Outbox>,
        connect: &crate::codec::Connect,
        limits: &Limits,
    ) -> Self {
        Self {
            id,
            version: connect.version,
            outbox,
            staged: BytesMut::new(),
            acks: WaitingAcks::new(),
            will: connect.will.clone(),
            window: usize::from(connect.receive_maximum.min(limits.inflight)),
            maximum_packet: connect.maximum_packet as usize,
            problem_information: connect.problem_information,
            aliases_in: HashMap::new(),
            alias_bytes: 0,
            aliases_out: HashMap::new(),
            alias_maximum: usize::from(connect.alias_maximum.min(limits.topic_aliases)),
        }
    }

    /// Reports whether the client has too many unread bytes.
    pub(crate) fn is_full(&self, limits: &Limits) -> bool {
        self.staged.len() + self.outbox.waiting() > limits.buffered_bytes
    }

    /// Writes a DISCONNECT, with a reason string if the client wants it and its packet limit allows it.
    pub(crate) fn disconnect(&mut self, reason: Reason, said: &str) {
        let said = if self.problem_information { said } else { "" };
        encode::disconnect(
            &mut self.staged,
            self.version,
            reason,
            said,
            self.maximum_packet,
        );
    }

    /// Writes a PUBLISH, with an alias instead of a topic that was sent before.
    pub(crate) fn publish(&mut self, mut outgoing: Outgoing<'_>) -> Written {
        let topic = &outgoing.message.topic;
        let mut named = None;
        if self.alias_maximum > 0 {
            match self.aliases_out.get(topic) {
                Some(alias) => outgoing.alias = Some((*alias, true)),
                None if self.aliases_out.len() < self.alias_maximum => {
                    let alias = self.aliases_out.len() as u16 + 1;
                    outgoing.alias = Some((alias, false));
                    named = Some(alias);
                }
                None => {}
            }
        }
        let mut is_written = self.write(&outgoing);
        if !is_written && outgoing.alias.take().is_some() {
            // introducing an alias may need more room than the topic alone
            named = None;
            is_written = self.write(&outgoing);
        }
        if !is_written {
            return Written::TooLarge;
        }
        if let Some(alias) = named {
            self.aliases_out.insert(Arc::clone(topic), alias);
        }
        Written::Yes
    }

    fn write(&mut self, outgoing: &Outgoing<'_>) -> bool {
        encode::publish(
            &mut self.staged,
            self.version,
            outgoing,
            self.maximum_packet,
        )
    }
}
