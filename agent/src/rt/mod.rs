//! The machinery that every room stands on: waiting between tries, and running tasks that must not vanish silently.

mod backoff;
mod supervise;

pub(crate) use backoff::Backoff;
pub(crate) use supervise::{Ended, Supervisor};
