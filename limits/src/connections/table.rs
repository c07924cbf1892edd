//! The table of a server's connections, which chooses the one to end when there are too many. It does no IO and reads no clock.

use std::{cmp::Reverse, collections::HashMap, net::IpAddr};

use clock::Instant;

use super::limits::{ConnectionLimits, Full};

/// The number and the handle of a connection that must end because its slot is given to another one.
pub(super) type Evicted<T> = (u64, T);

/// The state of a connection.
#[derive(Debug)]
struct Entry<T> {
    /// The peer's address; `None` for a unix socket.
    peer: Option<IpAddr>,
    /// The time since which it is pending or idle.
    since: Instant,
    /// The number of active requests.
    active: usize,
    /// Whether it has had its first request.
    established: bool,
    /// Whether it may have a reserved slot.
    privileged: bool,
    /// The handle that ends the connection.
    handle: T,
}

impl<T> Entry<T> {
    fn is_idle(&self) -> bool {
        self.established && self.active == 0
    }
}

/// The connections of one server.
#[derive(Debug)]
pub(super) struct Table<T> {
    limits: ConnectionLimits,
    next: u64,
    entries: HashMap<u64, Entry<T>>,
}

impl<T> Table<T> {
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        Self {
            limits,
            next: 0,
            entries: HashMap::new(),
        }
    }

    /// Adds a connection and returns its number, and the connection that must end for it. A peer that has reached its limit loses one of
    /// its own. If there are too many pending connections, the oldest of the peer with the most of them ends.
    ///
    /// # Errors
    /// The peer has reached its limit, and all its connections are busy.
    pub(super) fn accept(
        &mut self,
        peer: Option<IpAddr>,
        now: Instant,
        handle: T,
    ) -> Result<(u64, Option<Evicted<T>>), Full> {
        let mut evicted = None;
        if let Some(peer) = peer.filter(|peer| !is_own(*peer)) {
            let own = || {
                self.entries
                    .values()
                    .filter(|entry| entry.peer == Some(peer))
            };
            if own().count() >= self.limits.per_address {
                let victim = self.oldest(|entry| entry.peer == Some(peer) && !entry.established);
                let victim = victim
                    .or_else(|| self.oldest(|entry| entry.peer == Some(peer) && entry.is_idle()));
                evicted = Some(
                    self.take(victim.ok_or(Full::Address)?)
                        .ok_or(Full::Address)?,
                );
            }
        }
        if evicted.is_none() && self.pending().count() >= self.limits.pending {
            let most = self.most_pending(peer);
            let victim = self.oldest(|entry| !entry.established && entry.peer == most);
            evicted = victim.and_then(|victim| self.take(victim));
        }
        self.next += 1;
        let entry = Entry {
            peer,
            since: now,
            active: 0,
            established: false,
            privileged: false,
            handle,
        };
        self.entries.insert(self.next, entry);
        Ok((self.next, evicted))
    }

    /// Marks the beginning of a request on connection `number`. Its first request makes the connection established, which may evict an idle
    /// one.
    ///
    /// # Errors
    /// The limit of established connections is reached by busy ones.
    pub(super) fn begin(
        &mut self,
        number: u64,
        privileged: bool,
    ) -> Result<Option<Evicted<T>>, Full> {
        let Some(entry) = self.entries.get(&number) else {
            return Err(Full::Server);
        };
        let mut evicted = None;
        if !entry.established {
            let kept = if privileged { 0 } else { self.limits.reserved };
            let places = self.limits.established.saturating_sub(kept);
            if self
                .entries
                .values()
                .filter(|entry| entry.established)
                .count()
                >= places
            {
                let victim = self.oldest(|entry| entry.is_idle() && !entry.privileged);
                let victim = victim.or_else(|| self.oldest(Entry::is_idle).filter(|_| privileged));
                evicted = Some(self.take(victim.ok_or(Full::Server)?).ok_or(Full::Server)?);
            }
        }
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.established = true;
            entry.privileged = privileged;
            entry.active += 1;
        }
        Ok(evicted)
    }

    /// Marks the end of a request of connection `number`.
    pub(super) fn end(&mut self, number: u64, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.active = entry.active.saturating_sub(1);
            entry.since = now;
        }
    }

    /// Restarts the idle time of connection `number`.
    pub(super) fn touch(&mut self, number: u64, now: Instant) {
        if let Some(entry) = self
            .entries
            .get_mut(&number)
            .filter(|entry| entry.established)
        {
            entry.since = now;
        }
    }

    /// Removes connection `number`, which has ended.
    pub(super) fn remove(&mut self, number: u64) {
        self.entries.remove(&number);
    }

    /// Returns since when connection `number` waits for its next or first request, and whether it has had one. `None` while a request is
    /// active.
    pub(super) fn waiting_since(&self, number: u64) -> Option<(Instant, bool)> {
        let entry = self
            .entries
            .get(&number)
            .filter(|entry| entry.active == 0)?;
        Some((entry.since, entry.established))
    }

    /// Returns the numbers of established and of pending connections.
    pub(super) fn counts(&self) -> (usize, usize) {
        let pending = self.pending().count();
        (self.entries.len() - pending, pending)
    }

    fn pending(&self) -> impl Iterator<Item = &Entry<T>> {
        self.entries.values().filter(|entry| !entry.established)
    }

    /// Returns the peer with the most pending connections, counting the newcomer; among equals, the one with the oldest connection.
    fn most_pending(&self, newcomer: Option<IpAddr>) -> Option<IpAddr> {
        let mut counts: HashMap<Option<IpAddr>, (usize, Reverse<u64>)> = HashMap::new();
        for (number, entry) in self.entries.iter().filter(|(_, entry)| !entry.established) {
            let of_newcomer = usize::from(entry.peer == newcomer);
            let (count, oldest) = counts
                .entry(entry.peer)
                .or_insert((of_newcomer, Reverse(*number)));
            (*count, *oldest) = (*count + 1, (*oldest).max(Reverse(*number)));
        }
        counts
            .into_iter()
            .max_by_key(|(_, most)| *most)
            .and_then(|(peer, _)| peer)
    }

    fn oldest(&self, is_one: impl Fn(&Entry<T>) -> bool) -> Option<u64> {
        let candidates = self.entries.iter().filter(|(_, entry)| is_one(entry));
        candidates
            .min_by_key(|(number, entry)| (entry.since, **number))
            .map(|(number, _)| *number)
    }

    fn take(&mut self, number: u64) -> Option<Evicted<T>> {
        self.entries
            .remove(&number)
            .map(|entry| (number, entry.handle))
    }
}

/// Reports whether a peer is a program of this machine, which may use the whole server.
fn is_own(peer: IpAddr) -> bool {
    peer.to_canonical().is_loopback()
}
