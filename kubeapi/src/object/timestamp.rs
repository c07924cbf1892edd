//! The times in the metadata of objects.

use jiff::Timestamp;

/// RFC 3339 in whole seconds, as all times of objects' metadata.
pub fn format_timestamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// This second.
pub fn now() -> String {
    format_timestamp(clock::now())
}
