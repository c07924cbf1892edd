//! Nothing is lost: many seeds of the simulated world, and many disconnects.

// a helper fails its test by panicking, with a message that says what was expected
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod disconnects;
mod seeds;
