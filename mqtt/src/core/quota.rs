//! Limits the number of sessions, and chooses which one ends for a new one.

use std::{collections::HashMap, net::IpAddr};

use clock::Instant;

use super::{Core, session::Session};
use crate::{
    access::Identity,
    counters::Counters,
    reason::{Fault, Reason},
};

impl Core {
    /// Makes room for a session of `who` that connects from `peer`. The candidates are the sessions of its user or address if that has
    /// reached its limit, otherwise those of the address that has most. A session that holds nothing ends first, otherwise the one that has
    /// been without its client for longest.
    ///
    /// # Errors
    /// All of them are in use.
    pub(super) fn make_room(&mut self, who: &Identity, peer: IpAddr) -> Result<(), Fault> {
        let most = self.limits.sessions_per_client;
        let is_users = |session: &Session| who.user.is_some() && session.who.user == who.user;
        let is_peers = |session: &Session| !peer.is_loopback() && session.peer == Some(peer);
        let count = |is_one: &dyn Fn(&Session) -> bool| {
            self.sessions
                .values()
                .filter(|session| is_one(session))
                .count()
        };
        let (victim, said) = if count(&is_users) >= most {
            (
                self.least_used(is_users),
                "as many sessions as one user may have, all of them in use",
            )
        } else if count(&is_peers) >= most {
            (
                self.least_used(is_peers),
                "as many sessions as one address may have, all of them in use",
            )
        } else if self.sessions.len() >= self.limits.sessions {
            let crowd = self.crowd();
            let victim = self.least_used(|session| session.peer == crowd);
            (
                victim.or_else(|| self.least_used(|_| true)),
                "limit of sessions reached, all in use",
            )
        } else {
            return Ok(());
        };
        let victim = victim.ok_or(Fault::new(Reason::QuotaExceeded, said))?;
        self.evict(victim);
        Ok(())
    }

    /// Returns the address with the most sessions without a client.
    fn crowd(&self) -> Option<IpAddr> {
        let mut counts: HashMap<Option<IpAddr>, usize> = HashMap::new();
        let away = self
            .sessions
            .values()
            .filter(|session| session.connection.is_none());
        away.for_each(|session| *counts.entry(session.peer).or_default() += 1);
        counts
            .into_iter()
            .max_by_key(|(_, count)| *count)
            .and_then(|(peer, _)| peer)
    }

    fn least_used(&self, is_one: impl Fn(&Session) -> bool) -> Option<u64> {
        let away = self
            .sessions
            .iter()
            .filter(|(_, session)| session.connection.is_none() && is_one(session));
        let age = |session: &Session| (!session.subscriptions.is_empty(), session.left);
        away.min_by_key(|(id, session)| (age(session), **id))
            .map(|(id, _)| *id)
    }

    fn evict(&mut self, id: u64) {
        Counters::count(&self.counters.evicted);
        if let Some(session) = self.sessions.get(&id)
            && let Some(times) = self.told.count("evicted", Instant::now())
        {
            tracing::warn!(client = %session.who.client, times, "session of a disconnected client evicted: limit of sessions reached");
        }
        self.end_session(id);
    }
}
