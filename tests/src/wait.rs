//! Waiting for what no watch tells: conditions of runtimes, files and connections.

use std::{fmt::Debug, future::Future, time::Duration};

/// The limit of every wait: many times what anything takes on a loaded machine.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// How often a condition without events is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The outcome of `future`, which has to come within [`WAIT_TIMEOUT`].
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(WAIT_TIMEOUT, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {WAIT_TIMEOUT:?}"),
    }
}

/// Waits until `look` finds what it looks for; what it sees instead is shown when it never does.
pub async fn eventually<T, S: Debug>(what: &str, mut look: impl AsyncFnMut() -> Result<T, S>) -> T {
    let begun = tokio::time::Instant::now();
    let mut looks = tokio::time::interval(POLL_INTERVAL);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        match look().await {
            Ok(found) => return found,
            Err(seen) if begun.elapsed() >= WAIT_TIMEOUT => {
                panic!("{what}: not within {WAIT_TIMEOUT:?}; last seen: {seen:?}")
            }
            Err(_) => {}
        }
    }
}

/// How often something is tried whose time counts.
const TRIES: usize = 5;

/// Tries something that has to be done in time until it was: that the machine had other things to do meanwhile says nothing of
/// the program. How long each try took is shown when none was in time.
pub async fn in_time<S: Debug>(what: &str, mut attempt: impl AsyncFnMut() -> Result<(), S>) {
    let mut late = Vec::new();
    for _ in 0..TRIES {
        match attempt().await {
            Ok(()) => return,
            Err(took) => late.push(took),
        }
    }
    panic!("{what}: not once in time: {late:?}");
}
