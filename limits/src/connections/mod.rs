//! How many connections a server has at one time, and which of them ends when a new one comes.
//!
//! A connection is *pending* until its first request: until then it costs its client nothing. Pending connections have a bound of their
//! own, and beyond it the oldest of the peer that has most of them ends: whoever comes now and speaks gets in, whatever crowd is silent.
//! From its first request on it is *established*; beyond the bound of these the one that has been idle for longest ends. Some places
//! are kept for privileged connections. One peer address has a bound of both, unless it is this machine's loopback.

mod limits;
mod table;
#[cfg(test)]
mod tests;

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub use self::limits::{ConnectionLimits, Full};
use self::table::Table;

type Shared = Arc<Mutex<Table<CancellationToken>>>;

/// The connections of one server; cheap to clone.
#[derive(Clone, Debug)]
pub struct ConnectionLimiter(Shared);

impl ConnectionLimiter {
    /// A server without connections.
    pub fn new(limits: ConnectionLimits) -> Self {
        Self(Arc::new(Mutex::new(Table::new(limits))))
    }

    /// A place for a connection that was accepted from `peer`; `None`: on a unix socket.
    ///
    /// # Errors
    /// There is none: it should be closed.
    pub fn accept(&self, peer: Option<SocketAddr>) -> Result<ConnectionSlot, Full> {
        let evicted = CancellationToken::new();
        let peer: Option<IpAddr> = peer.map(|peer| peer.ip().to_canonical());
        let (number, other) = self.0.lock().accept(peer, Instant::now(), evicted.clone())?;
        if let Some((_, other)) = other {
            other.cancel();
        }
        Ok(ConnectionSlot { table: self.0.clone(), number, evicted })
    }

    /// How many have not begun.
    pub fn pending(&self) -> usize {
        self.0.lock().counts().1
    }
}

/// The place of one connection, which is free when this is dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    table: Shared,
    number: u64,
    evicted: CancellationToken,
}

impl ConnectionSlot {
    /// Returns when the connection must end, as its place went to another one. Cancel-safe.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// The same as a token.
    pub fn eviction(&self) -> CancellationToken {
        self.evicted.clone()
    }

    /// A request begins, or, on a connection that has no requests, what it was opened for. `privileged`: whether it may have one of
    /// the places that are kept. The connection is not idle until what is returned is dropped.
    ///
    /// # Errors
    /// It is the connection's first request, and as many connections as there may be are at work.
    pub fn begin(&self, privileged: bool) -> Result<ActiveRequest, Full> {
        if let Some((_, other)) = self.table.lock().begin(self.number, privileged)? {
            other.cancel();
        }
        Ok(ActiveRequest { table: self.table.clone(), number: self.number })
    }

    /// Something came on a connection that has no requests: it is idle since now.
    pub fn touch(&self) {
        self.table.lock().touch(self.number, Instant::now());
    }

    /// When it must have its next request, `idle` after the last one, or its first one, `first` after it came; `None` while one is
    /// under way.
    pub fn deadline(&self, first: Duration, idle: Duration) -> Option<Instant> {
        let (since, established) = self.table.lock().waiting_since(self.number)?;
        Some(since + if established { idle } else { first })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.table.lock().remove(self.number);
    }
}

/// A request under way on a connection.
#[derive(Debug)]
#[must_use = "the request has ended when this is dropped"]
pub struct ActiveRequest {
    table: Shared,
    number: u64,
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.table.lock().end(self.number, Instant::now());
    }
}
