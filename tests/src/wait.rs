//! Waits for conditions of runtimes, files and connections, which have no watch.

use std::{fmt::Debug, future::Future, time::Duration};

/// The time limit of every wait: many times what anything takes on a loaded machine.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// How often a condition without events is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Returns the output of `future`, which has to complete within [`WAIT_TIMEOUT`].
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(WAIT_TIMEOUT, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {WAIT_TIMEOUT:?}"),
    }
}

/// Waits until `look` returns `Ok`; its last error is shown when it never does.
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

/// How often a timed attempt is made.
const TRIES: usize = 5;

/// Repeats an attempt that has a time limit until one is in time: a slow attempt may only mean that the machine was busy. The time of
/// each attempt is shown if none was in time.
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
