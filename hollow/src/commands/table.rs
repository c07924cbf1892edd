//! Tables for people, with ages.

pub(super) use agent::table::Table;
use jiff::Timestamp;

/// Returns how long ago something was, in one unit.
pub(super) fn age(since: Timestamp, now: Timestamp) -> String {
    wire::text::age(now.duration_since(since).as_secs())
}
