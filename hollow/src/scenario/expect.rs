//! Checks whether an object has a field with a value. Pure.

use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The path of a field: `status.phase`, `status.containerStatuses[0].ready`, or a JSON pointer if names contain dots.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Path(String);

impl<'de> Deserialize<'de> for Path {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Path {
    /// Returns the field of `object`.
    pub(super) fn find<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        if self.0.starts_with('/') {
            return object.pointer(&self.0);
        }
        let pointer = self
            .0
            .replace('~', "~0")
            .replace('/', "~1")
            .replace('[', ".")
            .replace(']', "");
        let pointer: String = pointer
            .split('.')
            .filter(|part| !part.is_empty())
            .map(|part| format!("/{part}"))
            .collect();
        object.pointer(&pointer)
    }
}

/// Reports whether a field is as expected: the same value, or absent if `null` is expected.
pub(super) fn is(found: Option<&Value>, wanted: &Value) -> bool {
    match (found, wanted) {
        (None, wanted) => wanted.is_null(),
        // 1 and 1.0 are the same number.
        (Some(Value::Number(found)), Value::Number(wanted)) => {
            found == wanted
                || found
                    .as_f64()
                    .is_some_and(|found| Some(found) == wanted.as_f64())
        }
        (Some(found), wanted) => found == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_found_by_dots_and_by_pointers() {
        let object = json!({"metadata": {"labels": {"a.b/c": "x"}}, "status": {"phase": "Running", "list": [{"n": 1}, {"n": 2}]}});
        let find = |path: &str| Path(path.to_owned()).find(&object).cloned();
        assert_eq!(find("status.phase"), Some(json!("Running")));
        assert_eq!(find("status.list[1].n"), Some(json!(2)));
        assert_eq!(find("/metadata/labels/a.b~1c"), Some(json!("x")));
        for missing in ["status.list[2].n", "status.nothing", "status.phase.x"] {
            assert_eq!(find(missing), None, "{missing}");
        }
    }

    #[test]
    fn null_is_what_is_not_there() {
        assert!(is(None, &json!(null)) && is(Some(&json!(null)), &json!(null)));
        assert!(!is(None, &json!(0)) && !is(Some(&json!(0)), &json!(null)));
        assert!(is(Some(&json!(1)), &json!(1.0)) && !is(Some(&json!("1")), &json!(1)));
    }
}
