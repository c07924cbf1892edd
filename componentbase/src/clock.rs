//! The clocks: that of timers, which is virtual in tests with paused time, and the calendar's.

use clock::Instant;

/// Returns the time of the clock that timers use. The machine's clock would differ where time is virtual.
pub fn now() -> Instant {
    Instant::now()
}

/// Returns the milliseconds since 1970, as messages carry them.
pub fn unix_millis() -> i64 {
    clock::now().as_millisecond()
}
