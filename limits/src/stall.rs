//! Stalls of this process: periods in which the machine or the process stood still, because it was suspended or stopped, or had no
//! memory. A timer that fires late shows one. What happened to others in such a period cannot be judged.

use std::{future::Future, pin::pin, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, error::Elapsed};

/// How late a timer may fire on a busy machine.
pub const STALL_TOLERANCE: Duration = Duration::from_secs(2);

/// Reports whether a timer of `limit` that took `took` shows a stall of this process.
#[must_use]
pub fn is_stalled(limit: Duration, took: Duration) -> bool {
    took > limit.saturating_add(STALL_TOLERANCE)
}

/// Awaits `future` for at most `limit`, as [`tokio::time::timeout`] does. If this process stood still meanwhile, `future` has the
/// whole limit again: nobody could answer, or be heard.
///
/// # Errors
/// The limit has passed.
pub async fn timeout_unless_stalled<F: Future>(
    limit: Duration,
    future: F,
) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    loop {
        let begun = Instant::now();
        match tokio::time::timeout(limit, &mut future).await {
            Err(_) if is_stalled(limit, begun.elapsed()) => {}
            ended => return ended,
        }
    }
}

/// A clock that runs while this process runs. Somebody must read it at least once in [`RunClock::MAX_PAUSE`]: a longer time between
/// two readings is a stall, and does not count.
#[derive(Debug)]
pub struct RunClock(Mutex<Reading>);

#[derive(Debug)]
struct Reading {
    last: Instant,
    ran: Duration,
}

impl RunClock {
    /// The longest time between two readings that counts.
    pub const MAX_PAUSE: Duration = Duration::from_secs(15);

    /// Reads the clock: how long this process has run since the clock was created.
    pub fn now(&self) -> Duration {
        let mut reading = self.0.lock();
        let now = Instant::now();
        let passed = now.saturating_duration_since(reading.last);
        reading.last = now;
        if passed <= Self::MAX_PAUSE {
            reading.ran += passed;
        }
        reading.ran
    }
}

impl Default for RunClock {
    /// Starts at zero.
    fn default() -> Self {
        Self(Mutex::new(Reading {
            last: Instant::now(),
            ran: Duration::ZERO,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::{advance, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_limit_ends_a_wait_and_a_stall_gives_it_anew() {
        let limit = Duration::from_secs(5);
        let begun = Instant::now();
        timeout_unless_stalled(limit, pending::<()>())
            .await
            .unwrap_err();
        assert_eq!(begun.elapsed(), limit);
        let waiting = tokio::spawn(timeout_unless_stalled(limit, async {
            sleep(Duration::from_secs(63)).await;
        }));
        tokio::task::yield_now().await;
        advance(Duration::from_secs(60)).await;
        waiting.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_counts_no_pause_in_which_nobody_read_it() {
        let clock = RunClock::default();
        for _ in 0..3 {
            advance(RunClock::MAX_PAUSE).await;
            clock.now();
        }
        assert_eq!(clock.now(), RunClock::MAX_PAUSE * 3);
        advance(Duration::from_secs(100)).await;
        assert_eq!(clock.now(), RunClock::MAX_PAUSE * 3);
        advance(Duration::from_secs(1)).await;
        assert_eq!(
            clock.now(),
            RunClock::MAX_PAUSE * 3 + Duration::from_secs(1)
        );
    }
}
