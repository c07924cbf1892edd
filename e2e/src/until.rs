//! Waiting for what other processes do: they tell nobody, so they are asked again and again.

use std::{
    fmt::Debug,
    thread,
    time::{Duration, Instant},
};

use anyhow::bail;

/// How long one condition may take to come true: many times what it takes on a loaded machine, and longer than what kubectl
/// itself is told to wait, so that its own words are heard. Back-offs grow with the time that was lost before.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(120);

/// Short beside the milliseconds that a process needs to start; a question that takes longer is followed by as long a pause, so
/// that asking leaves half of a processor to what is waited for.
const INTERVAL: Duration = Duration::from_millis(10);

/// Asks until the answer is `Ok`; `Err` tells what was seen instead, and stands in the error when patience is over.
pub fn until<T, E: Debug>(what: &str, ask: impl FnMut() -> Result<T, E>) -> anyhow::Result<T> {
    until_within(WAIT_TIMEOUT, what, ask)
}

/// The same with another patience: for what takes many steps.
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

/// Waits for a point in time: for disturbances that are to come at a given moment, never for a condition.
pub fn at(moment: Instant) {
    thread::sleep(moment.saturating_duration_since(Instant::now()));
}
