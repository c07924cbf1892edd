//! Waits of tests without a runtime, for other processes, which send no notifications: they check again and again.

use std::{
    fmt::Debug,
    thread,
    time::{Duration, Instant},
};

use anyhow::bail;

use crate::PROCESS_TIMEOUT;

/// The interval between checks, short compared with the milliseconds that a process needs to start; a check that takes longer is
/// followed by as long a pause, so that checking leaves half of a processor to what is waited for.
const INTERVAL: Duration = Duration::from_millis(10);

/// Checks until the result is `Ok`, for no longer than [`PROCESS_TIMEOUT`].
///
/// # Errors
/// It never is; the last `Err`, which says what was seen instead, is part of the message.
pub fn until<T, E: Debug>(what: &str, ask: impl FnMut() -> Result<T, E>) -> anyhow::Result<T> {
    until_within(PROCESS_TIMEOUT, what, ask)
}

/// As [`until`], with another timeout.
///
/// # Errors
/// As [`until`].
pub fn until_within<T, E: Debug>(
    timeout: Duration,
    what: &str,
    mut ask: impl FnMut() -> Result<T, E>,
) -> anyhow::Result<T> {
    let end = Instant::now() + timeout;
    loop {
        let asked = Instant::now();
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(seen) if Instant::now() > end => {
                bail!("{what}: not within {timeout:?}; last seen: {seen:?}")
            }
            Err(_) => thread::sleep(INTERVAL.max(asked.elapsed())),
        }
    }
}

/// Waits for a point in time, for disturbances at a given moment and never for a condition.
pub fn at(moment: Instant) {
    thread::sleep(moment.saturating_duration_since(Instant::now()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_says_what_was_waited_for_and_what_was_seen() {
        let mut asked = 0;
        let answer = until("the second answer", || {
            asked += 1;
            if asked == 2 { Ok(asked) } else { Err("none") }
        });
        assert_eq!(answer.unwrap(), 2);
        let error =
            until_within(Duration::ZERO, "a node", || Err::<(), _>("NotReady")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a node: not within 0ns; last seen: \"NotReady\""
        );
    }
}
