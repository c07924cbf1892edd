//! Fuzzing on stable Rust: one function for every decoder of bytes from outside, and a corpus of what was recorded. A target panics
//! where a decoder does, or where it breaks its promise.
//!
//! `make fuzz` builds the decoders with coverage and lets libFuzzer look for new code in them, for as long as one likes. That is a
//! build of its own, which takes minutes; so the suite runs each target for a moment on the corpus and on what a small seeded mutator
//! makes of it, as it is built anyway. See [`campaign()`].

// a target fails by panicking, with a message that says what was expected
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod campaign;
mod corpus;
mod mutate;
mod targets;

pub use self::{
    campaign::{Crash, campaign},
    mutate::Mutator,
    targets::{NoSuchTarget, TARGETS, Target, target},
};
