//! Limits how many connections a server has at a time, and chooses which one ends when a new one arrives.
//!
//! A connection is *pending* until its first request, because until then it costs its client nothing. Pending connections have a limit of
//! their own. Beyond it, the oldest connection of the peer with the most pending ones ends, so that a silent crowd cannot keep out a new
//! client that sends a request. From its first request on, a connection is *established*. Beyond that limit, the connection that has been
//! idle for longest ends. Some slots are reserved for privileged connections. A peer address has a limit of both kinds, unless it is this
//! machine's loopback.

mod limits;
mod table;
#[cfg(test)]
mod tests;

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use clock::Instant;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub use self::limits::{ConnectionLimits, Full};
use self::table::Table;

type Shared = Arc<Mutex<Table<CancellationToken>>>;

/// The connections of one server; cheap to clone.
#[derive(Clone, Debug)]
pub struct ConnectionLimiter(Shared);

impl ConnectionLimiter {
    /// Creates the limiter of a server without connections.
    pub fn new(limits: ConnectionLimits) -> Self {
        Self(Arc::new(Mutex::new(Table::new(limits))))
    }

    /// Takes a slot for a connection that was accepted from `peer`; `None` means a unix socket.
    ///
    /// # Errors
    /// There is no free slot: the caller should close the connection.
    pub fn accept(&self, peer: Option<SocketAddr>) -> Result<ConnectionSlot, Full> {
        let evicted = CancellationToken::new();
        let peer: Option<IpAddr> = peer.map(|peer| peer.ip().to_canonical());
        let (number, other) = self
            .0
            .lock()
            .accept(peer, Instant::now(), evicted.clone())?;
        if let Some((_, other)) = other {
            other.cancel();
        }
        Ok(ConnectionSlot {
            table: self.0.clone(),
            number,
            evicted,
        })
    }

    /// Returns the number of pending connections.
    pub fn pending(&self) -> usize {
        self.0.lock().counts().1
    }
}

/// The slot of one connection; dropping it frees the slot.
#[derive(Debug)]
pub struct ConnectionSlot {
    table: Shared,
    number: u64,
    evicted: CancellationToken,
}

impl ConnectionSlot {
    /// Waits until the connection must end because its slot was given to another one. Cancel-safe.
    pub async fn wait_evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Returns a token that is cancelled when the slot is given to another connection.
    pub fn eviction(&self) -> CancellationToken {
        self.evicted.clone()
    }

    /// Marks the beginning of a request, or of the use of a connection that has no requests. `privileged` says whether the connection may
    /// have a reserved slot. The connection is not idle until the returned value is dropped.
    ///
    /// # Errors
    /// It is the connection's first request, and the limit of established connections is reached by busy ones.
    pub fn begin(&self, privileged: bool) -> Result<ActiveRequest, Full> {
        if let Some((_, other)) = self.table.lock().begin(self.number, privileged)? {
            other.cancel();
        }
        Ok(ActiveRequest {
            table: self.table.clone(),
            number: self.number,
        })
    }

    /// Restarts the idle time of a connection that has no requests, because bytes arrived on it.
    pub fn touch(&self) {
        self.table.lock().touch(self.number, Instant::now());
    }

    /// Returns the time by which the next request must arrive: `idle` after the last one, or `first` after the connection was accepted.
    /// `None` while a request is active.
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

/// An active request of a connection.
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
