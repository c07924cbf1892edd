//! The size of stored objects: etcd's limit, checked before and after each step that makes an object grow.

use std::io::{self, ErrorKind, Write};

use serde_json::Value;

use crate::object::is_deleting;

/// The largest encoded object in bytes: etcd's default for a request (`--max-request-bytes`).
pub const MAX_OBJECT_BYTES: usize = 1536 * 1024;

/// What the server itself may add to an object that is being deleted: its time of deletion, and the owners of fields.
const DELETION_MARGIN: usize = 4 * 1024;

/// An object is larger than may be stored.
#[derive(Debug, PartialEq, Eq)]
pub struct ObjectTooLarge {
    /// The bytes of the encoded object; `None` if its defaults were not all filled in.
    pub bytes: Option<usize>,
}

/// Refuses `new`, which replaces `current`, if it is too large. A stored object that is larger than the limit may be replaced by one
/// that is not larger, and may be deleted.
///
/// # Errors
/// The object is too large.
pub fn check(new: &Value, current: Option<&Value>) -> Result<(), ObjectTooLarge> {
    if is_within(new, MAX_OBJECT_BYTES) {
        return Ok(());
    }
    let stored = current.map_or(0, |current| {
        encoded_bytes(current, usize::MAX).unwrap_or_default()
    });
    let allowed = match is_deleting(new) {
        true => stored.max(MAX_OBJECT_BYTES) + DELETION_MARGIN,
        false => stored,
    };
    if is_within(new, allowed) {
        Ok(())
    } else {
        Err(ObjectTooLarge {
            bytes: encoded_bytes(new, usize::MAX),
        })
    }
}

/// Reports whether `value` takes at most `limit` bytes as JSON. Stops counting at the limit.
pub fn is_within(value: &Value, limit: usize) -> bool {
    encoded_bytes(value, limit).is_some()
}

/// Returns the bytes of `value` as JSON; `None` beyond `limit`.
pub fn encoded_bytes(value: &Value, limit: usize) -> Option<usize> {
    let mut counter = Counter { bytes: 0, limit };
    serde_json::to_writer(&mut counter, value).ok()?;
    Some(counter.bytes)
}

/// Counts the bytes that are written to it, and fails beyond a limit.
struct Counter {
    bytes: usize,
    limit: usize,
}

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len();
        if self.bytes > self.limit {
            Err(ErrorKind::FileTooLarge.into())
        } else {
            Ok(bytes.len())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(bytes: usize, is_deleted: bool) -> Value {
        let mut object = json!({"metadata": {}, "data": ""});
        if is_deleted {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let empty = object.to_string().len();
        object["data"] = json!("x".repeat(bytes - empty));
        object
    }

    #[test]
    fn object_is_counted_as_it_is_encoded() {
        let value = json!({"a": ["\"\n\u{1}ü", 1.5, -3, null, true], "b": {}});
        let length = value.to_string().len();
        assert_eq!(encoded_bytes(&value, length), Some(length));
        assert_eq!(encoded_bytes(&value, length - 1), None);
    }

    #[test]
    fn larger_object_than_the_limit_may_shrink_and_be_deleted_only() {
        const MAX: usize = MAX_OBJECT_BYTES;
        for (new, is_deleted, current, accepted) in [
            (MAX, false, None, true),
            (MAX + 1, false, None, false),
            (MAX + 1, false, Some(MAX), false),
            (3 * MAX, false, Some(3 * MAX), true),
            (2 * MAX, false, Some(3 * MAX), true),
            (3 * MAX + 1, false, Some(3 * MAX), false),
            (3 * MAX + 100, true, Some(3 * MAX), true),
            (MAX + 100, true, Some(MAX), true),
            (2 * MAX, true, Some(MAX), false),
        ] {
            let current = current.map(|bytes| object(bytes, false));
            let checked = check(&object(new, is_deleted), current.as_ref());
            assert_eq!(checked.is_ok(), accepted, "{new} {is_deleted}");
        }
    }
}
