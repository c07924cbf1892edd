//! The limits of a server.

use std::time::Duration;

use limits::ConnectionLimits;

/// The largest piece of a response in bytes: responses are sent in such pieces, so that a slow client still shows that it reads.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;

/// The limits of a [`Server`](super::Server).
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// The most concurrent connections.
    pub connections: ConnectionLimits,
    /// The timeout from the connection to the end of the TLS handshake.
    pub handshake: Duration,
    /// The timeout from the connection to the end of the first request's head, the handshake included.
    pub first_request: Duration,
    /// How long a connection may be idle after a request. It is longer than clients keep idle connections, or they would send into
    /// connections that are being closed.
    pub idle: Duration,
    /// How long a client may take to read a piece of a response, at most 64 KiB.
    pub write: Duration,
    /// The limits of one client.
    pub client: ClientLimits,
    /// The most bytes of responses that all clients have not yet read.
    pub unread_bytes: usize,
}

/// The limits of one client: a user with a certificate, or else an address.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// The most concurrent requests that end by themselves; further ones wait for [`Self::queue`]. Administrators are exempt.
    pub requests: usize,
    /// How long a request waits for others of the same client.
    pub queue: Duration,
    /// The most concurrent long-running requests: watches, followed logs, commands.
    pub streams: usize,
    /// The most bytes of responses that it has not yet read. One response of any size is always allowed.
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
