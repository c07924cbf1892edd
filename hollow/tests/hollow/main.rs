//! Clouds with nodes, as their users see them: what they store, serve, log and survive.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod damage;
mod metrics;
mod refusing;
mod secrets;
mod snapshot;
mod virtual_time;
