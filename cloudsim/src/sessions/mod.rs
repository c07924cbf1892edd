//! The sessions of connected nodes, in one table for all replicas of a hub: node, address, time of connection and transport.
//!
//! CloudHub registers a session when it accepts a node. Controllers look up a node's address and end sessions whose certificate was
//! revoked; they do not depend on CloudHub.

mod duplicate_agents;
mod metrics;
mod node_session;
mod reenrolled;
mod remote;
mod session_request;
mod table;
mod traffic;

pub(crate) use self::{
    metrics::RefusalReason,
    remote::RemoteSession,
    session_request::{RequestSequence, SessionRefusal, SessionRequest},
    table::Session,
    traffic::Traffic,
};
pub use self::{
    node_session::{Count, CountedSessions, DuplicateAgent, NodeSession, Transport},
    reenrolled::Reenrolled,
    table::Sessions,
};

#[cfg(test)]
mod tests;
