//! Checks new events of the newer form, which have an `eventTime`. Source: `ValidateEventCreate` of Kubernetes, which does not limit
//! older ones either.

use serde_json::Value;

use crate::{cause::Cause, object::text_or_empty};

/// The longest texts in bytes: the field's name in `v1`, that in `events.k8s.io/v1`, and the limit.
const LIMITS: [(&str, &str, usize); 4] = [
    ("reportingInstance", "reportingInstance", 128),
    ("action", "action", 128),
    ("reason", "reason", 128),
    ("message", "note", 1024),
];

pub(super) fn create(event: &Value) -> Vec<Cause> {
    if event.get("eventTime").is_none_or(Value::is_null) {
        return Vec::new();
    }
    let is_too_long = |(old, new, limit): &(&str, &str, usize)| {
        [old, new].iter().any(|name| text_or_empty(event, &format!("/{name}")).len() > *limit)
    };
    let cause = |(name, _, limit): &(&str, &str, usize)| {
        Cause::invalid(*name, &"".into(), &format!("can have at most {limit} characters"))
    };
    LIMITS.iter().filter(|limit| is_too_long(limit)).map(cause).collect()
}
