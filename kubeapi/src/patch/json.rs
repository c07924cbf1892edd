//! RFC 6902: a list of operations, of which all are applied or none.

use json_patch::{AddOperation, PatchErrorKind, PatchOperation, patch_unsafe};
use serde_json::Value;

use super::error::{PatchError, TEST_FAILED};

/// The known operations. An unknown one is reported only when its turn comes.
const OPERATIONS: [&str; 6] = ["add", "remove", "replace", "move", "copy", "test"];

/// The most operations of one patch, as in the real server.
const MAX_OPERATIONS: usize = 10_000;

/// The most bytes that `copy` and `move` may handle together: `copy` lets a small patch make a large object by doubling, and `move`
/// causes work. The size limit of a request's body is ample for both.
const MAX_CARRIED: usize = 3 << 20;

/// How many list items all operations may shift together: an insertion or a removal at the beginning of a long list moves all its
/// other items.
const MAX_SHIFTED: usize = 20_000_000;

/// How deep a changed object may be nested: the parser reads no deeper than 128 levels, and the result must be readable again.
const MAX_DEPTH: usize = 120;

/// Returns `current` after the operations of `body`.
pub(super) fn apply(current: &Value, body: &Value) -> Result<Value, PatchError> {
    let Value::Array(operations) = body else {
        return Err(bad(
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        ));
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge {
            limit: MAX_OPERATIONS,
            found: operations.len(),
        });
    }
    let mut object = current.clone();
    let (mut carried, mut shifted) = (0, 0);
    for operation in operations {
        if let Some(unknown) = operation["op"]
            .as_str()
            .filter(|name| !OPERATIONS.contains(name))
        {
            return Err(PatchError::Unprocessable(format!(
                "Unexpected kind: {unknown}"
            )));
        }
        let operation = serde_json::from_value(operation.clone());
        let operation: PatchOperation = operation.map_err(|error| bad(&error.to_string()))?;
        let operation = with_absent_fields(&object, operation);
        check(&object, &operation, &mut carried)?;
        shifted += shifts(&object, &operation);
        if shifted > MAX_SHIFTED {
            let why = format!("the operations would shift more than {MAX_SHIFTED} items of lists");
            return Err(PatchError::Unprocessable(why));
        }
        if tests_absence(&object, &operation) {
            continue;
        }
        patch_unsafe(&mut object, std::slice::from_ref(&operation))
            .map_err(|error| refusal(&operation, &error.kind))?;
    }
    if !object.is_object() {
        return Err(PatchError::Unprocessable(
            "the patch leaves no object".to_owned(),
        ));
    }
    Ok(object)
}

/// Returns the operation that does the same if an absent field of an object were null: the real server replaces and copies such fields,
/// against RFC 6902.
fn with_absent_fields(object: &Value, operation: PatchOperation) -> PatchOperation {
    match operation {
        PatchOperation::Replace(replace) if is_absent_field(object, replace.path.as_str()) => {
            PatchOperation::Add(AddOperation {
                path: replace.path,
                value: replace.value,
            })
        }
        PatchOperation::Copy(copying) if is_absent_field(object, copying.from.as_str()) => {
            PatchOperation::Add(AddOperation {
                path: copying.path,
                value: Value::Null,
            })
        }
        operation => operation,
    }
}

/// Reports whether an object could have a field at this place, and has none.
fn is_absent_field(object: &Value, path: &str) -> bool {
    path.rsplit_once('/').is_some_and(|(parent, _)| {
        object.pointer(parent).is_some_and(Value::is_object) && object.pointer(path).is_none()
    })
}

/// Reports whether this tests for `null` where the object lacks the field. RFC 6902 has no such test, but the real server accepts
/// it, and clients use it to add a field only if it is absent.
fn tests_absence(object: &Value, operation: &PatchOperation) -> bool {
    let PatchOperation::Test(test) = operation else {
        return false;
    };
    test.value.is_null() && is_absent_field(object, test.path.as_str())
}

fn bad(why: &str) -> PatchError {
    PatchError::BadRequest(format!("error decoding patch: {why}"))
}

/// Checks that the object does not grow without bound.
fn check(
    object: &Value,
    operation: &PatchOperation,
    carried: &mut usize,
) -> Result<(), PatchError> {
    let (value, path) = match operation {
        PatchOperation::Add(add) => (Some(&add.value), &add.path),
        PatchOperation::Replace(replace) => (Some(&replace.value), &replace.path),
        PatchOperation::Move(moving) => (object.pointer(moving.from.as_str()), &moving.path),
        PatchOperation::Copy(copying) => (object.pointer(copying.from.as_str()), &copying.path),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
    };
    if matches!(operation, PatchOperation::Move(_) | PatchOperation::Copy(_)) {
        *carried += value.map_or(0, size);
    }
    if *carried > MAX_CARRIED {
        let why = format!("copy and move operations would carry more than {MAX_CARRIED} bytes");
        return Err(PatchError::Unprocessable(why));
    }
    if path.count() + value.map_or(0, depth) > MAX_DEPTH {
        let why = format!("the object would be nested more than {MAX_DEPTH} levels deep");
        return Err(PatchError::Unprocessable(why));
    }
    Ok(())
}

/// Returns how many list items change their index by this operation.
fn shifts(object: &Value, operation: &PatchOperation) -> usize {
    let after = |path: &str| {
        let Some((parent, place)) = path.rsplit_once('/') else {
            return 0;
        };
        let length = object
            .pointer(parent)
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        length.saturating_sub(place.parse().unwrap_or(length))
    };
    match operation {
        PatchOperation::Add(add) => after(add.path.as_str()),
        PatchOperation::Copy(copying) => after(copying.path.as_str()),
        PatchOperation::Remove(removal) => after(removal.path.as_str()),
        PatchOperation::Move(moving) => after(moving.from.as_str()) + after(moving.path.as_str()),
        PatchOperation::Replace(_) | PatchOperation::Test(_) => 0,
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size(item) + 1).sum::<usize>() + 2,
        Value::Object(map) => {
            map.iter()
                .map(|(name, value)| name.len() + 4 + size(value))
                .sum::<usize>()
                + 2
        }
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn refusal(operation: &PatchOperation, kind: &PatchErrorKind) -> PatchError {
    let path = operation.path().as_str();
    let why = match (operation, kind) {
        (PatchOperation::Test(_), PatchErrorKind::TestFailed) => {
            format!("testing value {path} failed: {TEST_FAILED}")
        }
        (_, PatchErrorKind::CannotMoveInsideItself) => {
            format!("move operation does not apply: {path} lies inside of what it moves")
        }
        (_, PatchErrorKind::InvalidFromPointer) => {
            format!(
                "{} operation does not apply: doc is missing from path",
                name(operation)
            )
        }
        _ => {
            format!(
                "{} operation does not apply: doc is missing path: \"{path}\": missing value",
                name(operation)
            )
        }
    };
    PatchError::Unprocessable(why)
}

fn name(operation: &PatchOperation) -> &'static str {
    match operation {
        PatchOperation::Add(_) => "add",
        PatchOperation::Remove(_) => "remove",
        PatchOperation::Replace(_) => "replace",
        PatchOperation::Move(_) => "move",
        PatchOperation::Copy(_) => "copy",
        PatchOperation::Test(_) => "test",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_follow_each_other() {
        let object =
            json!({"metadata": {"labels": {"a": "1", "b": "2", "c": "3"}}, "list": [1, 2]});
        let body = json!([
            {"op": "test", "path": "/metadata/labels/a", "value": "1"},
            {"op": "remove", "path": "/metadata/labels/a"},
            {"op": "replace", "path": "/metadata/labels/b", "value": "x"},
            {"op": "add", "path": "/metadata/labels/k8s.io~1app", "value": "y"},
            {"op": "add", "path": "/list/-", "value": 3},
            {"op": "add", "path": "/list/0", "value": 0},
            {"op": "move", "from": "/metadata/labels/c", "path": "/c"},
            {"op": "copy", "from": "/list", "path": "/copy"},
        ]);
        let expected = json!({"metadata": {"labels": {"b": "x", "k8s.io/app": "y"}}, "list": [0, 1, 2, 3], "c": "3",
            "copy": [0, 1, 2, 3]});
        assert_eq!(apply(&object, &body), Ok(expected));
    }

    #[test]
    fn what_is_absent_is_tested_for_with_null() {
        let object = json!({"metadata": {}});
        let body = json!([
            {"op": "test", "path": "/metadata/finalizers", "value": null},
            {"op": "add", "path": "/metadata/finalizers", "value": ["a"]},
        ]);
        assert_eq!(
            apply(&object, &body),
            Ok(json!({"metadata": {"finalizers": ["a"]}}))
        );
        for object in [
            json!({"metadata": {"finalizers": ["b"]}}),
            json!({}),
            json!({"metadata": []}),
        ] {
            assert!(
                matches!(apply(&object, &body), Err(PatchError::Unprocessable(_))),
                "{object}"
            );
        }
    }

    #[test]
    fn an_absent_field_is_replaced_and_copied_as_null() {
        let object = json!({"metadata": {}});
        let body = json!([
            {"op": "replace", "path": "/metadata/labels", "value": {"a": "1"}},
            {"op": "copy", "from": "/metadata/none", "path": "/metadata/annotations"},
        ]);
        let expected = json!({"metadata": {"labels": {"a": "1"}, "annotations": null}});
        assert_eq!(apply(&object, &body), Ok(expected));
    }

    #[test]
    fn what_does_not_fit_the_object_is_refused() {
        let object = json!({"spec": {"replicas": 1}, "list": [1]});
        let refusals = [
            json!([{"op": "test", "path": "/spec/replicas", "value": 2}]),
            json!([{"op": "test", "path": "/spec/paused", "value": true}]),
            json!([{"op": "remove", "path": "/spec/paused"}]),
            json!([{"op": "replace", "path": "/status/phase", "value": 1}]),
            json!([{"op": "add", "path": "/list/7", "value": 1}]),
            json!([{"op": "copy", "from": "/nothing/inside", "path": "/x"}]),
            json!([{"op": "move", "from": "/spec", "path": "/spec/inside"}]),
            json!([{"op": "replace", "path": "", "value": 1}]),
        ];
        let refusals = refusals.map(|body| match apply(&object, &body) {
            Err(PatchError::Unprocessable(why)) => why,
            other => panic!("{body}: {other:?}"),
        });
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        testing value /spec/replicas failed: test failed
        test operation does not apply: doc is missing path: "/spec/paused": missing value
        remove operation does not apply: doc is missing path: "/spec/paused": missing value
        replace operation does not apply: doc is missing path: "/status/phase": missing value
        add operation does not apply: doc is missing path: "/list/7": missing value
        copy operation does not apply: doc is missing from path
        move operation does not apply: /spec/inside lies inside of what it moves
        the patch leaves no object
        "#);
    }

    #[test]
    fn what_is_no_patch_is_refused() {
        let bodies = [json!({}), json!([1]), json!([{"op": "add", "path": "/x"}])];
        for body in bodies {
            assert!(
                matches!(apply(&json!({}), &body), Err(PatchError::BadRequest(_))),
                "{body}"
            );
        }
        let many = Value::Array(vec![
            json!({"op": "add", "path": "/x", "value": 1});
            MAX_OPERATIONS + 1
        ]);
        assert_eq!(
            apply(&json!({}), &many),
            Err(PatchError::TooLarge {
                limit: 10_000,
                found: 10_001
            })
        );
    }

    #[test]
    fn a_small_patch_makes_no_large_object() {
        let doubling = json!([{"op": "copy", "from": "/a", "path": "/a/-"}]);
        let doubling = Value::Array(vec![doubling[0].clone(); 5000]);
        let nesting = Value::Array(vec![
            json!({"op": "copy", "from": "/a", "path": "/a/0"});
            200
        ]);
        for body in [doubling, nesting] {
            assert!(matches!(
                apply(&json!({"a": [1]}), &body),
                Err(PatchError::Unprocessable(_))
            ));
        }
    }
}
