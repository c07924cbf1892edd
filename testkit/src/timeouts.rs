//! How long tests wait: many times what anything takes on a loaded machine, so that only what hangs fails.

use std::time::Duration;

/// The limit of a wait for something in the test's own process, or on a connection that it holds.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The limit of a wait for another process: longer than kubectl's own timeouts, so that its messages are seen. Back-offs grow with the time
/// that was lost before.
pub const PROCESS_TIMEOUT: Duration = Duration::from_secs(120);

/// The limit of a wait for what takes many steps: the first start of a machine, or one round of a benchmark.
pub const LONG_TIMEOUT: Duration = Duration::from_secs(300);
