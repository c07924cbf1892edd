//! Fuzzing on stable Rust: one function for every decoder of bytes from outside, a corpus of what was recorded, and a small
//! seeded mutator. A target panics where a decoder does, or where it breaks its promise.
//!
//! The suite runs each target for a moment; `make fuzz` runs them for as long as one likes. See [`campaign()`].

// a target fails by panicking, with a message that says what was expected
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod campaign;
mod corpus;
mod mutate;
mod targets;

pub use self::{
    campaign::{Crash, campaign},
    mutate::Mutator,
    targets::{TARGETS, Target},
};
