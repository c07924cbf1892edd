//! What the tests of this workspace share.
//!
//! A wait ends with its condition, or fails its test after a timeout and says what was waited for and what was seen last: [`eventually`],
//! [`until`] and [`within`] in asynchronous tests, [`eventually_paused`] where their clock is paused, [`blocking`] for tests that drive
//! other processes. The timeouts are [`WAIT_TIMEOUT`], [`PROCESS_TIMEOUT`] and [`LONG_TIMEOUT`]. [`Random`] gives the same numbers for
//! the same seed, [`LogBuffer`] keeps the lines of a log, and [`silent_tcp`] and [`silent_unix`] are clients that say nothing.
//! [`in_network_namespace`] gives a test a network of its own. [`kubectl`] and [`installed_program`] find the programs that
//! `make needs` installs.
//!
//! It is a development dependency: no program has it in it.

// A helper fails its test by panicking, with a message that says what was expected.
#![allow(clippy::panic)]

pub mod blocking;
mod installed;
mod log_buffer;
mod network;
mod random;
mod silent;
mod timeouts;
mod wait;

pub use self::{
    installed::{installed_program, kubectl},
    log_buffer::LogBuffer,
    network::{forged_udp, in_network_namespace, ip},
    random::Random,
    silent::{closed, silent_tcp, silent_unix},
    timeouts::{LONG_TIMEOUT, PROCESS_TIMEOUT, WAIT_TIMEOUT},
    wait::{at, eventually, eventually_paused, eventually_within, until, within, within_timeout},
};
