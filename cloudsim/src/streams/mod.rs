//! The cloud's end of the stream tunnel, CloudCore's CloudStream: nodes dial it, and through one WebSocket of each the API reads logs and
//! pages of the node, runs commands in its containers, attaches to them and reaches their ports.
//!
//! In: tunnels of nodes, each known by its certificate; requests of the API, by [`Tunnels`]' [`kubeapi::NodeStreams`]. Out: what the node's
//! kubelet API answers. Every request goes as exec-connect, also those for logs and pages: the other kinds carry a body without its
//! status. There is one table of tunnels for all replicas of the hub.
//!
//! What the node sends waits in a bounded buffer of its stream. With `edge-agent` each stream has a window in each direction
//! ([`wire::tunnel::window`]): what is not read stays on the node, and the tunnel is always read. EdgeCore has none, so that whoever reads
//! a stream slowly holds up all others: when a buffer is full, the tunnel is not read until there is room, and after a short time the
//! stream is ended, never the tunnel.

mod answer;
mod go;
mod inbox;
mod kubelets;
mod listener;
mod stream;
mod table;
mod tunnel;
mod upgrade;

pub(crate) use self::kubelets::{Kubelets, tls};
pub use self::{
    kubelets::{KubeletOptions, NoKeys},
    listener::{NoStreamServer, StreamServer},
    table::Tunnels,
};

#[cfg(test)]
mod tests;
