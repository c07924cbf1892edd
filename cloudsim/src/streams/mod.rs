//! The cloud's end of stream tunnels, CloudCore's CloudStream: nodes dial it, and through one WebSocket each the API reads their logs and
//! HTTP pages, runs commands in containers, attaches to them and reaches their ports.
//!
//! In: tunnels of nodes, authenticated by certificate; requests of the API, through [`kubeapi::NodeStreams`] of [`Tunnels`]. Out: the
//! answers of nodes' kubelet API. Every request is sent as exec-connect, also those for logs and pages: the other types carry a body
//! without its status. One table of tunnels serves all replicas of the hub.
//!
//! What the node sends waits in the bounded buffer of its stream. With `edge-agent` each stream has a window in each direction
//! ([`wire::tunnel::window`]): unread data stays on the node, and the tunnel is always read. EdgeCore has no windows, so a slow reader of
//! one stream delays all others: when a buffer is full, the tunnel is not read until there is room, and after
//! `STALL_TIMEOUT` the stream is ended, never the tunnel.

mod answer;
mod client_ca;
mod cluster;
mod connect_request;
mod deliver;
mod endpoint;
mod inbox;
mod kubelets;
mod listener;
mod metrics;
mod scrapers;
mod stream;
mod table;
mod tunnel;
mod upgrade;

pub(crate) use self::{
    client_ca::ClientTrust,
    cluster::{ClusterTunnels, answer_forwarded},
    endpoint::{KubeletEndpoint, NodeAddress, complete_patch},
    kubelets::Kubelets,
};
pub use self::{
    client_ca::{ClientCa, ClientCaError},
    endpoint::{StreamService, StreamServiceError},
    kubelets::KubeletOptions,
    listener::{StreamServer, StreamServerError},
    table::Tunnels,
};

#[cfg(test)]
mod tests;
