//! The time in the unit of the wire protocol.

/// Returns the time in milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> i64 {
    clock::now().as_millisecond()
}
