//! What a server allows.

use std::time::Duration;

use limits::ConnectionLimits;

/// The largest piece of an answer, bytes: what is not read is held in pieces of this size, and a slow client shows that it reads.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;

/// What a [`Server`](super::Server) allows.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Connections at one time.
    pub connections: ConnectionLimits,
    /// From the connection to the end of the TLS handshake.
    pub handshake: Duration,
    /// From the connection to the end of the first request's head, the handshake included.
    pub first_request: Duration,
    /// Without a request on a connection that has had one. Longer than clients keep theirs, or they would send into connections that are
    /// just being closed.
    pub idle: Duration,
    /// For a piece of an answer, 64 KiB at most, until the client takes the next one.
    pub write: Duration,
    /// What one client may have at a time.
    pub client: ClientLimits,
    /// Bytes of answers that are written and not yet read, of all clients.
    pub unread_bytes: usize,
}

/// What one client may have at a time: a user with a certificate, or else whoever calls from one address.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// Requests under way that have an end; more of them wait, for [`Self::queue`]. Administrators have no bound here.
    pub requests: usize,
    /// How long a request waits for others of the same client.
    pub queue: Duration,
    /// Requests without an end: watches, logs that are followed, commands.
    pub streams: usize,
    /// Bytes of answers that it has not read. One answer of any size is always given.
    pub unread_bytes: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        const MIB: usize = 1024 * 1024;
        Self {
            connections: ConnectionLimits {
                established: 2048,
                reserved: 64,
                pending: 512,
                per_address: 1024,
            },
            handshake: Duration::from_secs(10),
            first_request: Duration::from_secs(20),
            idle: Duration::from_secs(120),
            write: Duration::from_secs(60),
            client: ClientLimits {
                requests: 64,
                queue: Duration::from_secs(10),
                streams: 1000,
                unread_bytes: 64 * MIB,
            },
            unread_bytes: 256 * MIB,
        }
    }
}
