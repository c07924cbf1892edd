//! Messages about strategic merge patches whose result is no object of its kind. Unlike other patches, kube-apiserver applies them to
//! Go's maps and restores the object from these. Pure.

use serde_json::Value;

/// The fields that are maps of Go; other objects are structs.
const MAPS: [&str; 10] = [
    "annotations",
    "binaryData",
    "data",
    "labels",
    "limits",
    "matchLabels",
    "nodeSelector",
    "parameters",
    "requests",
    "stringData",
];

/// Returns why the object cannot be restored. `why` says why its JSON cannot be decoded.
pub(crate) fn restore_error(why: &str) -> String {
    let fault = || {
        let (found, rest) = why
            .strip_prefix("json: cannot unmarshal ")?
            .split_once(" into Go struct field ")?;
        let (path, expected) = rest.split_once(" of type ")?;
        let (kind, go_type) = match found.split(' ').next()? {
            "array" => ("slice", "[]interface {}"),
            "number" if found.contains('.') => ("float64", "float64"),
            "number" => ("int64", "int64"),
            "object" => ("map", "map[string]interface {}"),
            other => (other, other),
        };
        let field = path.rsplit('.').next()?;
        Some(match expected {
            "array" => format!("cannot restore slice from {kind}"),
            "object" if MAPS.contains(&field) => format!("cannot restore map from {kind}"),
            "object" => format!("cannot restore struct from: {kind}"),
            "boolean" => format!("cannot convert {go_type} to bool"),
            "string" | "int32" | "int64" => format!("cannot convert {go_type} to {expected}"),
            _ => return None,
        })
    };
    fault().unwrap_or_else(|| why.to_owned())
}

/// Returns a value as Go prints it: `map[metadata:map[labels:x]]`.
pub(crate) fn go_format(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(go_format).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields: Vec<_> = fields
                .into_iter()
                .map(|(name, value)| format!("{name}:{}", go_format(value)))
                .collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_another_type_cannot_be_restored() {
        let field = "into Go struct field";
        for (why, expected) in [
            (
                format!("string {field} ObjectMeta.metadata.labels of type object"),
                "cannot restore map from string",
            ),
            (
                format!("array {field} Pod.spec of type object"),
                "cannot restore struct from: slice",
            ),
            (
                format!("number {field} Pod.spec.containers of type array"),
                "cannot restore slice from int64",
            ),
            (
                format!("object {field} Pod.spec.nodeName of type string"),
                "cannot convert map[string]interface {} to string",
            ),
            (
                format!("number 1.5 {field} Service.spec.ports.port of type int32"),
                "cannot convert float64 to int32",
            ),
        ] {
            assert_eq!(
                restore_error(&format!("json: cannot unmarshal {why}")),
                expected
            );
        }
        assert_eq!(
            restore_error("quantities must match"),
            "quantities must match"
        );
    }

    #[test]
    fn values_are_printed_as_by_go() {
        let value = json!({"spec": {"b": [1, "x", null], "a": true}, "metadata": {}});
        assert_eq!(
            go_format(&value),
            "map[metadata:map[] spec:map[a:true b:[1 x <nil>]]]"
        );
    }
}
