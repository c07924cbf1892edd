//! What the kit speaks itself: TLS, HTTPS requests, WebSocket sessions of an edge and of a cloud.

pub(crate) mod https;
pub(crate) mod identity;
pub(crate) mod session;
pub(crate) mod tunnel;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The largest message that the kit reads, bytes.
pub(crate) const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// Returns the time in milliseconds since the Unix epoch, as messages have it.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or(Duration::ZERO).as_millis()).unwrap_or(i64::MAX)
}
