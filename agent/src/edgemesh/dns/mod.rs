//! Cluster DNS on the node: names of Services from the newest snapshot, all else from the node's own resolvers.
//!
//! | part | what |
//! |---|---|
//! | `zone` | the cluster domain, and names below it |
//! | `records` | what is answered of the cluster's names: pure |
//! | `message` | packets read and written: pure |
//! | `forward` | the node's resolvers |
//! | `cache` | what they have said, with a bound of bytes |
//! | `server` | sockets |
//!
//! The codec and the client of the resolvers are hickory's. The sockets are ours: hickory's server puts no bound on its tasks and
//! connections, and tells every question in the log. So is what is kept: hickory's cache counts answers, and not how long they are.

mod cache;
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

/// How the DNS server is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// The cluster domain, such as `cluster.local`.
    pub domain: Zone,
    /// The node's resolvers; none: those of `resolv_conf`.
    pub upstreams: Vec<SocketAddr>,
    /// The node's own `resolv.conf`, which is read anew when it changes.
    pub resolv_conf: PathBuf,
}

/// What a packet is answered of what the snapshot says; `None` where it is not answered, or where the node's resolvers would be asked.
/// For fuzzing.
pub fn answer(snapshot: &Snapshot, domain: &Zone, packet: &[u8]) -> Option<Vec<u8>> {
    match message::read(packet, message::Transport::Udp) {
        Ok(asked) => match records::answer(snapshot, domain, asked.name(), asked.kind()) {
            records::Answer::Own(found) => Some(asked.reply(found, domain)),
            records::Answer::Unready => Some(asked.failed()),
            records::Answer::Elsewhere => None,
        },
        Err(refusal) => refusal,
    }
}

#[cfg(test)]
mod tests;
