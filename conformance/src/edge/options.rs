//! How the kit's cloud is reached, and what the tested edge has.

use peer::{cloud::Addresses, transport::Transport};

/// How the kit's cloud is reached.
#[derive(Clone, Debug)]
pub struct Options {
    /// The names and addresses by which the edge dials the kit.
    pub names: Vec<String>,
    /// The addresses at which it listens.
    pub addresses: Addresses,
    /// The transport of sessions; QUIC uses the UDP port of `CloudHub`'s address.
    pub transport: Transport,
    /// The edge's MQTT broker, `host:port`; without it, its cases are skipped.
    pub mqtt: Option<String>,
    /// The image of the pods; the edge must have it or be able to pull it. It needs `sleep`.
    pub image: String,
}
