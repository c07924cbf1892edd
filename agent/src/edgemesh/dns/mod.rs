//! Cluster DNS on the node: it answers the names of Services from the newest snapshot, and forwards others to the node's own resolvers.
//!
//! | file | what |
//! |---|---|
//! | `zone` | the cluster domain, and names below it |
//! | `records` | the answers for the cluster's names; pure |
//! | `message` | packets, read and written; pure |
//! | `forward` | queries to the node's resolvers |
//! | `cache` | their answers, up to a number of bytes |
//! | `clients` | who is answered, by the kernel's routes |
//! | `listen`, `server` | sockets, and the server on them |
//!
//! The codec and the resolvers' client are hickory's. The server is our own, since hickory's limits neither its tasks nor its
//! connections, and logs every query. So is the cache, since hickory's limits the number of answers and not their size.

mod cache;
mod clients;
mod forward;
mod listen;
mod message;
mod records;
mod server;
mod zone;

use std::{net::SocketAddr, path::PathBuf};

pub use self::{
    listen::Listening,
    server::Server,
    zone::{BadDomain, DEFAULT_DOMAIN, Zone},
};
use super::snapshot::Snapshot;

/// The configuration of the DNS server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The cluster domain, such as `cluster.local`.
    pub domain: Zone,
    /// The resolvers that other names are forwarded to; empty: those of `resolv_conf`.
    pub upstreams: Vec<SocketAddr>,
    /// The node's own `resolv.conf`; its changes are followed.
    pub resolv_conf: PathBuf,
}

/// Answers a packet from a snapshot; `None` if it gets no answer, or would be forwarded. For fuzzing.
pub fn answer(snapshot: &Snapshot, domain: &Zone, packet: &[u8]) -> Option<Vec<u8>> {
    match message::read(packet, message::Transport::Udp) {
        Ok(asked) => match records::answer(snapshot, domain, asked.name(), asked.kind()) {
            records::Answer::Authoritative(found) => Some(asked.reply(found, domain)),
            records::Answer::NotSynced => Some(asked.into_servfail()),
            records::Answer::Forward => None,
        },
        Err(refusal) => refusal,
    }
}

#[cfg(test)]
mod tests;
