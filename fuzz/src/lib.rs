//! Fuzzing on stable Rust: one function for every decoder of bytes from outside, and a corpus of recordings. A target panics if its
//! decoder does, or if the decoder violates a guarantee.
//!
//! `make fuzz` builds the decoders with coverage and lets libFuzzer search for new code in them, for as long as one likes. That is a
//! separate build, which takes minutes; so the test suite runs each target for a moment in the normal build, on the corpus and on what a
//! small seeded mutator makes of it. See [`campaign()`].

// A target fails by panicking, with a message that says what was expected.
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
