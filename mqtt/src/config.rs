//! The configuration of a broker.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use crate::access::Access;

/// A broker's configuration.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The ports for clients; empty for a broker that serves only this process.
    pub listeners: Vec<Listener>,
    /// The database of persistent sessions and retained messages; without it they end with the process.
    pub database: Option<PathBuf>,
    /// Limits.
    pub limits: Limits,
    /// Users and rules.
    pub access: Access,
}

/// One port for clients.
#[derive(Debug, Clone)]
pub struct Listener {
    /// The address; port 0 takes a free one.
    pub address: SocketAddr,
    /// TLS settings; without them connections are plain.
    pub tls: Option<Tls>,
}

/// TLS 1.2 and 1.3, with PEM files.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The server's certificate and its intermediates.
    pub certificates: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// Authorities of client certificates. If set, a client must present a certificate, and its common name is the user.
    pub client_authorities: Option<PathBuf>,
}

/// Limits. Whatever is full refuses or drops, with a code and a counter; nothing grows without a limit.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections of clients. Beyond it, the connection that has been silent for longest ends.
    pub connections: usize,
    /// Connections of one address; loopback has no limit of its own.
    pub connections_per_address: usize,
    /// Connections before CONNECT. Beyond it, the oldest one of the address that has most of them ends.
    pub pending_connections: usize,
    /// Sessions, connected or not. Beyond it, the session that has been without its client for longest ends.
    pub sessions: usize,
    /// Sessions of one user, and of one address other than loopback.
    pub sessions_per_client: usize,
    /// The largest packet that is accepted, bytes; payloads are a little smaller.
    pub packet_bytes: usize,
    /// The time from the connection to CONNECT, including TLS.
    pub connect_timeout: Duration,
    /// The longest keep-alive, seconds. A client that requests more, or none, gets this one. 0 leaves the choice to clients.
    pub keep_alive: u16,
    /// The longest time that a session is kept without its client, seconds; `u32::MAX` means for ever.
    pub session_expiry: u32,
    /// QoS 2 messages that a client may have open, 1 to 65,535.
    pub receive_maximum: u16,
    /// Unacknowledged messages sent to one client; at least 1.
    pub inflight: u16,
    /// Messages above QoS 0 queued for one session, including those in flight.
    pub queued_messages: usize,
    /// Bytes of the messages queued for one session.
    pub queued_bytes: usize,
    /// Bytes of the messages queued for all sessions.
    pub total_queued_bytes: usize,
    /// Bytes of the wills, subscriptions and topic aliases of one user, or of one address other than loopback.
    pub kept_bytes_per_client: usize,
    /// Bytes of the wills, subscriptions and topic aliases of all clients.
    pub total_kept_bytes: usize,
    /// Bytes that are read from a client which has something to acknowledge while its publications wait for room.
    pub read_ahead_bytes: usize,
    /// How long a connected subscriber whose queue is full may delay its publishers above QoS 0.
    pub patience: Duration,
    /// Bytes written to one client that its socket has not taken yet.
    pub buffered_bytes: usize,
    /// Retained messages; one client may have three quarters of them.
    pub retained_messages: usize,
    /// Bytes of the retained messages; those of one client may be three quarters of them.
    pub retained_bytes: usize,
    /// Subscriptions of one session.
    pub subscriptions: usize,
    /// Topic aliases of one connection in each direction.
    pub topic_aliases: u16,
}

impl Default for Limits {
    /// Returns limits that are enough for a node with some thousand devices.
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
            kept_bytes_per_client: 8 * MIB,
            total_kept_bytes: 64 * MIB,
            // more than the buffers of both sockets hold, because acknowledgements arrive behind everything in them
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
