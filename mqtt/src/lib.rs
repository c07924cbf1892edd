//! An in-process MQTT broker for the devices of one node.
//!
//! Clients of MQTT 3.1, 3.1.1 and 5 connect to any number of listeners, with or without TLS; this process publishes and subscribes through
//! a [`Handle`]. [`bind`] opens the database and binds the listeners; [`Task::run`] serves until its token is cancelled.
//!
//! - MQTT 3.1.1: <https://docs.oasis-open.org/mqtt/mqtt/v3.1.1/os/mqtt-v3.1.1-os.html>
//! - MQTT 5: <https://docs.oasis-open.org/mqtt/mqtt/v5.0/os/mqtt-v5.0-os.html>
//!
//! One task owns all state and works in rounds: it takes the waiting commands, commits what must be durable (one transaction per round),
//! and only then sends answers and messages. So everything that was acknowledged is on disk. Nothing waits for a slow client, every queue
//! is limited ([`Limits`]), and a client's faults can end only its own connection.

mod access;
mod codec;
mod config;
mod confirmation;
mod core;
mod counters;
mod error;
mod handle;
mod holder;
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
    confirmation::{Confirmation, Delivered},
    counters::Counts,
    error::{Error, PublishError},
    handle::{Filters, Handle, Publishing, Subscription},
    message::{Message, QoS},
    reason::{Fault, Reason},
    task::{Task, bind},
    topic::{filter_matches, is_filter},
};
