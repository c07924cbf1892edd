//! Waits for other processes, which send no notifications, by checking again and again.

use std::{
    fmt::Debug,
    thread,
    time::{Duration, Instant},
};

use anyhow::bail;

/// How long one condition may take to come true: many times what it takes on a loaded machine, and longer than kubectl's own timeouts,
/// so that its messages are seen. Back-offs grow with the time that was lost before.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(120);

/// The interval between checks, short compared with the milliseconds that a process needs to start; a check that takes longer is
/// followed by as long a pause, so that checking leaves half of a processor to what is waited for.
const INTERVAL: Duration = Duration::from_millis(10);

/// Checks until the result is `Ok`; the last `Err`, which says what was seen instead, is part of the error after the timeout.
pub fn until<T, E: Debug>(what: &str, ask: impl FnMut() -> Result<T, E>) -> anyhow::Result<T> {
    until_within(WAIT_TIMEOUT, what, ask)
}

/// Checks until another timeout, for what takes many steps.
pub fn until_within<T, E: Debug>(
    patience: Duration,
    what: &str,
    mut ask: impl FnMut() -> Result<T, E>,
) -> anyhow::Result<T> {
    let end = Instant::now() + patience;
    loop {
        let asked = Instant::now();
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(seen) if Instant::now() > end => {
                bail!("{what}: not within {patience:?}; last seen: {seen:?}")
            }
            Err(_) => thread::sleep(INTERVAL.max(asked.elapsed())),
        }
    }
}

/// Waits for a point in time, for disturbances at a given moment and never for a condition.
pub fn at(moment: Instant) {
    thread::sleep(moment.saturating_duration_since(Instant::now()));
}
