//! The sessions of connected nodes, as one table for all replicas of a hub: who is connected, from where, since when, and over what.
//!
//! CloudHub enters a session when it accepts a node. Controllers ask the table where a node is connected from and end sessions whose
//! certificate counts no more; they know nothing of CloudHub.

mod arrival;
mod node_session;
mod reenrolled;
mod remote;
mod rivals;
mod table;
mod traffic;

pub(crate) use self::{
    arrival::{Arrival, Refused, Ticket},
    remote::RemoteSession,
    table::Session,
    traffic::Traffic,
};
pub use self::{
    node_session::{Carrier, Count, NodeSession, Rival},
    reenrolled::Reenrolled,
    table::Sessions,
};

#[cfg(test)]
mod tests;
