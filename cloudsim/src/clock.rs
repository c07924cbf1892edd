//! The time as the protocol has it.

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
