//! What a broker is built from.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use crate::access::Access;

/// A broker's configuration.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Where clients connect; none for a broker that serves this process alone.
    pub listeners: Vec<Listener>,
    /// The database of persistent sessions and retained messages; without it they end with the process.
    pub database: Option<PathBuf>,
    /// Bounds.
    pub limits: Limits,
    /// Users and rules.
    pub access: Access,
}

/// One port.
#[derive(Debug, Clone)]
pub struct Listener {
    /// The address; port 0 takes a free one.
    pub address: SocketAddr,
    /// TLS; without it the connection is plain.
    pub tls: Option<Tls>,
}

/// TLS 1.2 and 1.3, with PEM files.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The server's certificate and its intermediates.
    pub certificates: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// Authorities of client certificates: with them a client must show one, and its common name is the user.
    pub client_authorities: Option<PathBuf>,
}

/// Bounds. Whatever is full refuses or drops, with a code and a count; nothing grows without one of these.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections of clients. Beyond it the one that has said nothing for longest ends.
    pub connections: usize,
    /// Connections of one address; loopback has no bound of its own.
    pub connections_per_address: usize,
    /// Connections that have not said CONNECT yet. Beyond it the oldest of the address that has most of them ends.
    pub pending_connections: usize,
    /// Sessions, connected or kept. Beyond it the one goes that has been without its client for longest.
    pub sessions: usize,
    /// Sessions of one user, and of one address other than loopback.
    pub sessions_per_client: usize,
    /// The largest packet that is read, bytes; payloads are a little smaller.
    pub packet_bytes: usize,
    /// Time from connection to CONNECT, TLS included.
    pub connect_timeout: Duration,
    /// The longest keep-alive, seconds; a client that asks for more, or none, is given this. 0 leaves the choice to clients.
    pub keep_alive: u16,
    /// The longest life of a session without its client, seconds; `u32::MAX` for ever.
    pub session_expiry: u32,
    /// QoS 2 messages that a client may have open, 1 to 65,535.
    pub receive_maximum: u16,
    /// Unacknowledged messages sent to one client, at least 1.
    pub inflight: u16,
    /// Messages above QoS 0 kept for one session, those in flight included.
    pub queued_messages: usize,
    /// Their bytes.
    pub queued_bytes: usize,
    /// The bytes kept for all sessions.
    pub total_queued_bytes: usize,
    /// Bytes read of a client that has something to acknowledge while what it has published waits for room.
    pub read_ahead_bytes: usize,
    /// How long a connected subscriber whose queue is full may hold up those who publish to it above QoS 0.
    pub patience: Duration,
    /// Bytes written to one client and not yet taken by its socket.
    pub buffered_bytes: usize,
    /// Retained messages.
    pub retained_messages: usize,
    /// Their bytes.
    pub retained_bytes: usize,
    /// Subscriptions of one session.
    pub subscriptions: usize,
    /// Topic aliases of one connection, each way.
    pub topic_aliases: u16,
}

impl Default for Limits {
    /// Enough for a node with some thousand devices.
    fn default() -> Self {
        const KIB: usize = 1024;
        const MIB: usize = 1024 * KIB;
        Self {
            connections: 4096,
            connections_per_address: 1024,
            pending_connections: 512,
            sessions: 8192,
            sessions_per_client: 2048,
            packet_bytes: MIB,
            connect_timeout: Duration::from_secs(10),
            keep_alive: 0,
            session_expiry: 7 * 24 * 3600,
            receive_maximum: 256,
            inflight: 128,
            queued_messages: 1000,
            queued_bytes: 4 * MIB,
            total_queued_bytes: 64 * MIB,
            // more than the buffers of the two sockets hold: acknowledgements come behind all that is in them
            read_ahead_bytes: 16 * MIB,
            patience: Duration::from_secs(10),
            buffered_bytes: MIB,
            retained_messages: 10_000,
            retained_bytes: 16 * MIB,
            subscriptions: 1000,
            topic_aliases: 32,
        }
    }
}
