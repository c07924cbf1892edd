//! The machinery that every room stands on: waiting between tries, the clock, running tasks that must not vanish silently, files
//! that are whole, certificates that are renewed in time, faults that are not told too often.

mod backoff;
mod clock;
pub(crate) mod file;
pub(crate) mod renewal;
mod repeated;
mod supervise;

pub(crate) use backoff::Backoff;
pub(crate) use clock::now;
pub(crate) use repeated::Repeated;
pub(crate) use supervise::{Ended, Supervisor};
