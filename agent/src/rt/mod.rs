//! The machinery that every room stands on: waiting between tries, the clock, and running tasks that must not vanish silently.

mod backoff;
mod clock;
mod supervise;

pub(crate) use backoff::Backoff;
pub(crate) use clock::now;
pub(crate) use supervise::{Ended, Supervisor};
