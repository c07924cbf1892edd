//! An MQTT broker in process, for the devices of one node.
//!
//! In come MQTT 3.1.1 and 5 clients on any number of listeners, with or without TLS, and publications of this process through
//! a [`Handle`]; out go messages to both. [`bind`] opens and binds everything, [`Task::run`] serves until its token is
//! cancelled.
//!
//! - MQTT 3.1.1: <https://docs.oasis-open.org/mqtt/mqtt/v3.1.1/os/mqtt-v3.1.1-os.html>
//! - MQTT 5: <https://docs.oasis-open.org/mqtt/mqtt/v5.0/os/mqtt-v5.0-os.html>
//!
//! One task owns all state and works in turns: it takes what has come, commits what must last (one transaction a turn), and
//! only then lets answers and messages go. What was acknowledged is on disk. Nothing waits for a slow client, every queue has
//! a bound ([`Limits`]), and nothing that a client sends can do more than end its own connection.

mod access;
mod codec;
mod config;
mod core;
mod counters;
mod error;
mod handle;
mod index;
mod listen;
mod message;
mod outbox;
mod reason;
mod retained;
mod store;
mod task;
mod topic;

pub use self::{
    access::{Access, Action, Rule},
    config::{Config, Limits, Listener, Tls},
    counters::Counts,
    error::{Error, PublishError},
    handle::{Filters, Handle, Publishing, Subscription},
    message::{Message, QoS},
    reason::{Fault, Reason},
    task::{Task, bind},
    topic::{filter_matches, is_filter},
};
