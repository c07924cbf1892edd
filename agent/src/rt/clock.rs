//! The clock: the machine's, or a virtual one where the program runs on virtual time.

use std::time::Instant;

/// Now, by the clock that timers go by. The machine's clock would be another one where time is virtual.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
