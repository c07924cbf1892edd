//! Waits of asynchronous tests. A wait that takes too long fails its test.

use std::{fmt::Debug, future::Future, time::Duration};

use tokio::{
    task::yield_now,
    time::{self, Instant, MissedTickBehavior},
};

use crate::WAIT_TIMEOUT;

/// How often a condition without events is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Returns the output of `future`, which has to complete within [`WAIT_TIMEOUT`].
///
/// # Panics
/// It does not; `what` is the name of what was waited for.
pub fn within<T>(what: &str, future: impl Future<Output = T>) -> impl Future<Output = T> {
    within_timeout(WAIT_TIMEOUT, what, future)
}

/// As [`within`], with another timeout.
///
/// # Panics
/// The future does not complete in time.
pub fn within_timeout<T>(
    timeout: Duration,
    what: &str,
    future: impl Future<Output = T>,
) -> impl Future<Output = T> {
    // boxed: a watch of an object is tens of kilobytes
    let future = Box::pin(future);
    async move {
        match time::timeout(timeout, future).await {
            Ok(value) => value,
            Err(_) => panic!("{what}: not within {timeout:?}"),
        }
    }
}

/// Looks every few milliseconds until `look` returns `Ok`, and returns that. Its `Err` says what was seen instead.
///
/// # Panics
/// It never does within [`WAIT_TIMEOUT`]; the last `Err` is part of the message.
pub fn eventually<T, S: Debug>(
    what: &str,
    look: impl AsyncFnMut() -> Result<T, S>,
) -> impl Future<Output = T> {
    eventually_within(WAIT_TIMEOUT, what, look)
}

/// As [`eventually`], with another timeout.
///
/// # Panics
/// `look` never returns `Ok` in time; the last `Err` is part of the message.
pub async fn eventually_within<T, S: Debug>(
    timeout: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T, S>,
) -> T {
    let begun = Instant::now();
    let mut looks = time::interval(POLL_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        match look().await {
            Ok(found) => return found,
            Err(seen) if begun.elapsed() >= timeout => fail(what, timeout, seen),
            Err(_) => {}
        }
    }
}

/// As [`eventually`], for a test whose clock is paused while it reads and writes sockets or files: lets all other tasks go on between two
/// looks, and no time pass. The timeout is one of real time.
///
/// # Panics
/// As [`eventually`].
pub async fn eventually_paused<T, S: Debug>(
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T, S>,
) -> T {
    let begun = std::time::Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) if begun.elapsed() >= WAIT_TIMEOUT => fail(what, WAIT_TIMEOUT, seen),
            Err(_) => yield_now().await,
        }
    }
}

/// As [`eventually`], for a condition that has nothing to show but whether it holds.
///
/// # Panics
/// It does not hold within [`WAIT_TIMEOUT`].
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    eventually(what, async || condition().then_some(()).ok_or(false)).await;
}

/// Waits for a point in time, for disturbances at a given moment and never for a condition.
pub async fn at(moment: Instant) {
    time::sleep_until(moment).await;
}

fn fail(what: &str, timeout: Duration, seen: impl Debug) -> ! {
    panic!("{what}: not within {timeout:?}; last seen: {seen:?}")
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_its_condition() {
        let mut looks = 0;
        let seen = eventually("the third look", async || {
            looks += 1;
            if looks == 3 { Ok("third") } else { Err(looks) }
        });
        assert_eq!(seen.await, "third");
        let begun = Instant::now();
        let mut looks = 0;
        eventually_paused("the ninth look", async || {
            looks += 1;
            (looks == 9).then_some(()).ok_or(looks)
        })
        .await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert_eq!(within("what is there", async { 7 }).await, 7);
    }

    #[tokio::test(start_paused = true)]
    #[should_panic = "a pod: not within 60s; last seen: \"Pending\""]
    async fn a_condition_that_never_holds_fails_with_what_was_seen() {
        eventually("a pod", async || Err::<(), _>("Pending")).await;
    }

    #[tokio::test(start_paused = true)]
    #[should_panic = "an answer: not within 60s"]
    async fn a_future_that_never_completes_fails_with_its_name() {
        within("an answer", pending::<()>()).await;
    }
}
