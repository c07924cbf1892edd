//! Address validation of QUIC clients (RFC 9000, 8.1), whose datagrams may bear any source address.

use clock::Instant;

use limits::Rate;
use quinn::Incoming;
use tracing::debug;

/// The number of connections in their handshake from which on clients must show that their address is their own.
const MAX_UNVALIDATED: usize = 64;
/// How many clients a second are asked to show it. An answer to a neighbour that nobody is takes a KiB of the socket's send buffer for
/// three seconds: these take at most three quarters of it.
const RETRIES_PER_SECOND: u32 = 4096;
/// How many clients are asked at once.
const RETRIES_AT_ONCE: u32 = 1024;

/// Decides which clients must show that their address is their own.
#[derive(Debug)]
pub(super) struct AddressValidation {
    retries: Rate,
}

impl Default for AddressValidation {
    fn default() -> Self {
        Self {
            retries: Rate::new(RETRIES_PER_SECOND, RETRIES_AT_ONCE, Instant::now()),
        }
    }
}

impl AddressValidation {
    /// Returns the connection if its handshake may begin, while `pending` others are in theirs. Otherwise the client is asked to show
    /// that its address is its own; where too many are asked, it gets no answer, and sends its datagram again.
    pub(super) fn admit(&mut self, incoming: Incoming, pending: usize) -> Option<Incoming> {
        if pending < MAX_UNVALIDATED || !incoming.may_retry() {
            return Some(incoming);
        }
        let now = Instant::now();
        if self.retries.ready_at() > now {
            incoming.ignore();
            return None;
        }
        self.retries.record(now);
        if let Err(error) = incoming.retry() {
            debug!(%error, "failed to validate the address of a QUIC client");
        }
        None
    }
}

#[cfg(test)]
mod tests;
