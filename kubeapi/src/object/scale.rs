//! The scale of an object: how many replicas it has and shall have, the same for all kinds that have some (`autoscaling/v1` `Scale`).

use serde_json::{Value, json};

use crate::{
    object::{assign, items, metadata, text_or_empty},
    registry::ScalePaths,
};

/// The scale of `object`.
pub fn scale_of(paths: &ScalePaths, object: &Value) -> Value {
    let mut scale = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {}, "spec": {}, "status": {}});
    for name in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        let value = object
            .pointer("/metadata")
            .and_then(|metadata| metadata.get(name))
            .cloned();
        assign(metadata(&mut scale), name, value);
    }
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    if let Some(replicas) = number(&paths.replicas) {
        scale["spec"]["replicas"] = replicas.into();
    }
    scale["status"]["replicas"] = number(&paths.status_replicas).unwrap_or_default().into();
    let selector = paths
        .selector
        .as_deref()
        .and_then(|pointer| object.pointer(pointer))
        .map(selector_text);
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        scale["status"]["selector"] = selector.into();
    }
    scale
}

/// A selector as one text, as in the parameter `labelSelector`: of a text itself, a `LabelSelector` or a map of labels.
pub fn selector_text(selector: &Value) -> String {
    let Value::Object(map) = selector else {
        return selector.as_str().unwrap_or_default().to_owned();
    };
    let is_structured = map.contains_key("matchLabels") || map.contains_key("matchExpressions");
    let labels = if is_structured {
        map.get("matchLabels").and_then(Value::as_object)
    } else {
        Some(map)
    };
    let mut terms: Vec<_> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    terms.sort_unstable();
    for expression in map
        .get("matchExpressions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let key = text_or_empty(expression, "/key");
        let values: Vec<_> = items(expression, "/values")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let values = values.join(",");
        terms.push(match text_or_empty(expression, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    terms.join(",")
}
