//! Handles CONNECT: authenticates the client, finds its session, and answers.

use std::{fmt::Write, net::IpAddr, sync::Arc};

use bytes::BytesMut;
use clock::Instant;
use ring::rand::{SecureRandom, SystemRandom};

use super::{
    Core,
    session::{Connection, Session},
};
use crate::{
    access::Identity,
    codec::{
        Connect, Version,
        encode::{self, ConnAckProperties},
    },
    counters::Counters,
    holder::Holder,
    outbox::Outbox,
    reason::{Fault, Reason},
    store::SavedSession,
};

impl Core {
    /// Handles a client's CONNECT.
    pub(super) fn connect(
        &mut self,
        connection: u64,
        peer: IpAddr,
        connect: &Connect,
        certificate: Option<Arc<str>>,
        outbox: Arc<Outbox>,
    ) {
        match self.admit(connect, certificate, peer) {
            Ok((who, properties)) => {
                self.attach((connection, peer), connect, who, &properties, outbox)
            }
            Err(fault) => {
                Counters::count(&self.counters.refused);
                tracing::debug!(client = %connect.client, %fault, "connection refused");
                let mut refusal = BytesMut::new();
                let said = if connect.problem_information {
                    fault.said
                } else {
                    ""
                };
                let limit = connect.maximum_packet as usize;
                encode::connack_refused(&mut refusal, connect.version, fault.reason, said, limit);
                self.leaving.push((outbox, refusal));
            }
        }
    }

    /// Authenticates the client and determines the answer.
    fn admit(
        &mut self,
        connect: &Connect,
        certificate: Option<Arc<str>>,
        peer: IpAddr,
    ) -> Result<(Identity, ConnAckProperties), Fault> {
        if connect.authentication {
            return Err(Fault::new(
                Reason::BadAuthenticationMethod,
                "enhanced authentication is not offered",
            ));
        }
        let user = self
            .access
            .authenticate(
                certificate,
                connect.user.as_deref(),
                connect.password.as_deref(),
            )
            .map_err(|reason| Fault::new(reason, "unknown user or wrong password"))?;
        let assigned = connect.client.is_empty();
        if assigned && connect.version == Version::V311 && !connect.clean {
            return Err(Fault::new(
                Reason::ClientIdentifierNotValid,
                "a session that lasts needs a client identifier",
            ));
        }
        let client = if assigned {
            random_name()?
        } else {
            Arc::clone(&connect.client)
        };
        let who = Identity { client, user };
        match self
            .clients
            .get(&who.client)
            .and_then(|id| self.sessions.get(id))
        {
            Some(session) if session.who.user != who.user => {
                return Err(Fault::new(
                    Reason::NotAuthorized,
                    "the session is another user's",
                ));
            }
            Some(_) | None => {}
        }
        if let Some(will) = &connect.will
            && !self.access.may_publish(&who, &will.message.topic)
        {
            return Err(Fault::new(
                Reason::NotAuthorized,
                "the will's topic is not allowed",
            ));
        }
        let properties = self.connack_properties(connect, assigned.then(|| who.client.to_string()));
        let mut answer = BytesMut::new();
        encode::connack(&mut answer, connect.version, false, &properties);
        if answer.len() > connect.maximum_packet as usize {
            return Err(Fault::new(
                Reason::PacketTooLarge,
                "CONNACK is larger than the client takes",
            ));
        }
        if !self.clients.contains_key(&who.client) {
            self.make_room(&who, peer)?;
        }
        self.check_will(&who, peer, connect)?;
        Ok((who, properties))
    }

    /// Checks that the will is within the client's quota, from which what an earlier connection of the session keeps is deducted.
    fn check_will(&self, who: &Identity, peer: IpAddr, connect: &Connect) -> Result<(), Fault> {
        let Some(will) = &connect.will else {
            return Ok(());
        };
        let holder = Holder::of(who, Some(peer));
        let session = self
            .clients
            .get(&who.client)
            .and_then(|id| self.sessions.get(id));
        let earlier = session.filter(|session| session.holder == holder);
        let freed = earlier.map_or(0, |session| session.kept - session.filter_bytes);
        if self.kept.has_room(
            holder.as_ref(),
            will.weight().saturating_sub(freed),
            &self.limits,
        ) {
            return Ok(());
        }
        Err(Fault::new(
            Reason::QuotaExceeded,
            "no room for the will: the client's wills and subscriptions take all of its quota",
        ))
    }

    fn attach(
        &mut self,
        (connection, peer): (u64, IpAddr),
        connect: &Connect,
        who: Identity,
        properties: &ConnAckProperties,
        outbox: Arc<Outbox>,
    ) {
        let (client, holder) = (Arc::clone(&who.client), Holder::of(&who, Some(peer)));
        if let Some(old) = self.clients.get(&client).copied() {
            self.report_take_over(old, peer);
            self.take_over(old, connect.clean);
        }
        let expiry = self.expiry(connect);
        let present = !connect.is_31 && self.clients.contains_key(&client);
        let id = match self.clients.get(&client) {
            Some(id) => *id,
            None => {
                let id = self.new_id();
                self.clients.insert(Arc::clone(&client), id);
                self.sessions.insert(id, Session::new(who, expiry));
                id
            }
        };
        self.clear_deadlines(id);
        self.set_expiry(id, expiry);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.generation += 1;
            session.peer = Some(peer);
            session.will = None;
            session.on_wire = 0;
            let mut connected = Connection::new(connection, outbox, connect, &self.limits);
            encode::connack(&mut connected.staged, connect.version, present, properties);
            session.connection = Some(connected);
        }
        self.set_holder(id, holder);
        self.connections.insert(connection, id);
        self.dirty.insert(id);
        self.pump(id);
    }

    /// Logs that two clients use one identifier: each ends the other's connection, for ever.
    fn report_take_over(&mut self, id: u64, peer: IpAddr) {
        let connected = |session: &&Session| session.connection.is_some();
        let Some(session) = self.sessions.get(&id).filter(connected) else {
            return;
        };
        let client = &session.who.client;
        let Some(times) = self.take_overs.count(client, self.now) else {
            return;
        };
        let key = format!("taken over {client}");
        if self.told.count(&key, Instant::now()).is_some() {
            let old = session
                .peer
                .map_or_else(String::new, |peer| peer.to_string());
            tracing::warn!(
                %client, times, peers = %format!("{old}, {peer}"),
                "MQTT client ID used by two clients, which end each other's connections; give each client its own ID"
            );
        }
    }

    /// Ends an older connection with the same client identifier, and its session too if the client wants a clean one.
    fn take_over(&mut self, id: u64, clean: bool) {
        let said = "the same client identifier connected again";
        self.write(id, |connection| {
            connection.disconnect(Reason::SessionTakenOver, said)
        });
        self.detach(id, true);
        if clean {
            self.end_session(id);
        }
    }

    /// Sets how long the session is kept without its client, which also decides whether it is on disk.
    pub(super) fn set_expiry(&mut self, id: u64, expiry: u32) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.expiry = expiry;
        let durable = self.durable && expiry > 0;
        if session.durable && !durable {
            self.forget_on_disk(id);
        } else if durable {
            session.durable = true;
            let saved = SavedSession {
                user: session.who.user.clone(),
                expiry,
            };
            self.changes
                .sessions
                .insert(Arc::clone(&session.who.client), Some(saved));
            self.changes.urgent = true;
        }
    }

    /// Returns how long the session is to be kept without its client, within the limit.
    fn expiry(&self, connect: &Connect) -> u32 {
        connect.session_expiry.min(self.limits.session_expiry)
    }

    fn connack_properties(&self, connect: &Connect, assigned: Option<String>) -> ConnAckProperties {
        let (limits, expiry) = (&self.limits, self.expiry(connect));
        let keep_alive = effective_keep_alive(connect.keep_alive, limits.keep_alive);
        ConnAckProperties {
            session_expiry: (expiry != connect.session_expiry).then_some(expiry),
            receive_maximum: (limits.receive_maximum < u16::MAX).then_some(limits.receive_maximum),
            maximum_packet: u32::try_from(limits.packet_bytes).ok(),
            alias_maximum: limits.topic_aliases,
            assigned_client: assigned,
            keep_alive: (keep_alive != connect.keep_alive).then_some(keep_alive),
        }
    }
}

/// Returns the effective keep-alive, seconds: the client's, unless it is none or longer than `longest`. 0 means none.
pub(crate) fn effective_keep_alive(asked: u16, longest: u16) -> u16 {
    if longest > 0 && (asked == 0 || asked > longest) {
        longest
    } else {
        asked
    }
}

/// Returns a random client identifier that cannot be guessed.
fn random_name() -> Result<Arc<str>, Fault> {
    let mut bytes = [0; 12];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Fault::new(Reason::Unspecified, "cannot create a client identifier"))?;
    let mut name = String::from("auto-");
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    Ok(name.into())
}
