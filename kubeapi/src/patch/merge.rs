//! RFC 7396: objects are merged, null deletes, everything else replaces.

use serde_json::Value;

use super::error::PatchError;

/// Returns `current` merged with `body`.
pub(super) fn apply(current: &Value, body: &Value) -> Result<Value, PatchError> {
    if !body.is_object() {
        return Err(PatchError::BadRequest("Invalid JSON Patch".to_owned()));
    }
    let mut object = current.clone();
    merge(&mut object, body);
    Ok(object)
}

/// Merges a patch. Not `json_patch::merge`, since that does not keep the order of the remaining fields.
fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    let map = crate::object::as_map(object);
    crate::object::remove_nulled(map, patch);
    for (name, value) in patch.iter().filter(|(_, value)| !value.is_null()) {
        merge(map.entry(name.as_str()).or_insert(Value::Null), value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The examples of the RFC's appendix whose patches are objects.
    #[test]
    fn the_examples_of_the_rfc() {
        for (object, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": "b"}),
                json!({"b": "c"}),
                json!({"a": "b", "b": "c"}),
            ),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (
                json!({"a": "b", "b": "c"}),
                json!({"a": null}),
                json!({"b": "c"}),
            ),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (
                json!({"a": [{"b": "c"}]}),
                json!({"a": [1]}),
                json!({"a": [1]}),
            ),
            (
                json!({"e": null}),
                json!({"a": 1}),
                json!({"e": null, "a": 1}),
            ),
            (
                json!([1, 2]),
                json!({"a": "b", "c": null}),
                json!({"a": "b"}),
            ),
            (
                json!({}),
                json!({"a": {"bb": {"ccc": null}}}),
                json!({"a": {"bb": {}}}),
            ),
        ] {
            assert_eq!(apply(&object, &patch), Ok(expected), "{object} {patch}");
        }
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for patch in [json!(null), json!([]), json!("x")] {
            assert!(matches!(
                apply(&json!({}), &patch),
                Err(PatchError::BadRequest(_))
            ));
        }
    }

    #[test]
    fn the_order_of_the_other_fields_stays() {
        let merged = apply(
            &json!({"z": 1, "y": 2, "x": 3}),
            &json!({"z": null, "w": 4}),
        )
        .unwrap();
        assert_eq!(merged.to_string(), r#"{"y":2,"x":3,"w":4}"#);
    }
}
