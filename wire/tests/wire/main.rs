//! Holds the protocol against recorded traffic, and the generated code against its sources.

#![allow(clippy::unwrap_used)]

mod generated;
mod proto_digest;
mod recorded;
#[cfg(feature = "tunnel")]
mod tunnel;
