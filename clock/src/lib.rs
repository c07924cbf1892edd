//! What a program gets from its machine: the time, random numbers, threads for blocking work. In a [simulation](simulate) all of this comes
//! from the simulation: virtual time that jumps to the next event, numbers from a seed, and blocking work as a task of the one thread. The
//! same seed gives the same run.
//!
//! [`Instant`] is tokio's, which follows the virtual time. [`select!`] is tokio's as well, with the branch to begin with from the seed.

mod blocking;
pub mod fs;
mod hash;
mod random;
mod simulation;
mod trace;

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
pub use tokio::time::Instant;

pub use self::{
    blocking::spawn_blocking,
    hash::{HashMap, HashSet, RandomState},
    random::{Random, rng, uuid},
    simulation::{Simulated, is_simulated, set_virtual_time, simulate, simulate_with_trace, trace},
    trace::Trace,
};

/// Returns the current time.
pub fn now() -> Timestamp {
    simulation::time().unwrap_or_else(Timestamp::now)
}

/// Returns the current time, of the type of the standard library.
pub fn system_now() -> SystemTime {
    simulation::time().map_or_else(SystemTime::now, Into::into)
}

/// Returns the time since 1970-01-01T00:00:00Z; zero before it.
pub fn since_unix_epoch() -> Duration {
    system_now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Returns the milliseconds since 1970, as KubeEdge's messages carry them.
pub fn unix_millis() -> i64 {
    now().as_millisecond()
}

/// As [`tokio::select!`]. The branch that is polled first comes from the seed of a simulation.
#[macro_export]
macro_rules! select {
    (biased; $($branches:tt)*) => {
        $crate::tokio::select! { biased; $($branches)* }
    };
    ($($branches:tt)*) => {
        $crate::tokio::select!(@{ start={ $crate::first_branch(BRANCHES) }; () } $($branches)*)
    };
}

#[doc(hidden)]
pub use tokio;

#[doc(hidden)]
pub fn first_branch(branches: u32) -> u32 {
    match branches {
        0 => 0,
        _ => rng().random_range(0..branches),
    }
}
