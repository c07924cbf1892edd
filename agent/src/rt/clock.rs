//! The clocks: that of timers, which is a virtual one where the program runs on virtual time, and that of the calendar.

use std::time::Instant;

/// Now, by the clock that timers go by. The machine's clock would be another one where time is virtual.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Milliseconds since 1970, as messages carry them.
pub(crate) fn unix_millis() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
