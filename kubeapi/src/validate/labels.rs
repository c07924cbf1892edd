//! Checks labels and the selectors of labels.

use serde_json::{Map, Value};

use super::place::Place;
use crate::{
    cause::Cause,
    object::{items, names, text_or_empty},
};

/// Checks labels, or a selector that consists of labels.
pub fn labels(place: &Place<'_>, causes: &mut Vec<Cause>) {
    let add = |causes: &mut Vec<Cause>, text: &str, faults: Vec<String>| {
        causes.extend(
            faults
                .iter()
                .map(|why| Cause::invalid(place.path(), &text.into(), why)),
        );
    };
    for (key, value) in place.entries() {
        let value = value.as_str().unwrap_or_default();
        add(causes, key, names::qualified_name(key));
        add(causes, value, names::label_value(value));
    }
}

/// Checks a selector of labels.
pub fn selector(place: &Place<'_>, causes: &mut Vec<Cause>) {
    labels(&place.child("matchLabels", "matchLabels"), causes);
    let expressions = place.child("matchExpressions", "matchExpressions");
    for (index, expression) in expressions.list().iter().enumerate() {
        requirement(
            &expressions.item(index, expression),
            &["In", "NotIn", "Exists", "DoesNotExist"],
            causes,
        );
        values(&expressions.item(index, expression), causes);
    }
}

/// Checks a requirement of a selector, whose operators are these, except for its values.
pub fn requirement(place: &Place<'_>, operators: &[&str], causes: &mut Vec<Cause>) {
    let (operator, values) = (place.text("operator"), place.items("values"));
    match operator {
        _ if !operators.contains(&operator) => {
            causes.push(place.invalid(
                "operator",
                &operator.into(),
                "not a valid selector operator",
            ));
        }
        "In" | "NotIn" if values.is_empty() => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            causes.push(Cause::required(place.field("values"), why));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            causes.push(Cause::forbidden(place.field("values"), why));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            causes.push(Cause::required(place.field("values"), why));
        }
        _ => {}
    }
    let key = place.text("key");
    causes.extend(
        names::qualified_name(key)
            .iter()
            .map(|why| place.invalid("key", &key.into(), why)),
    );
}

/// Checks that the values of a requirement are those of labels.
pub fn values(place: &Place<'_>, causes: &mut Vec<Cause>) {
    for (index, value) in place.items("values").iter().enumerate() {
        let faults = names::label_value(value.as_str().unwrap_or_default());
        causes.extend(
            faults
                .iter()
                .map(|why| place.invalid(&format!("values[{index}]"), value, why)),
        );
    }
}

/// Reports whether a selector selects everything.
pub fn is_empty(selector: &Value) -> bool {
    selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .is_none_or(Map::is_empty)
        && items(selector, "/matchExpressions").is_empty()
}

/// Reports whether a selector matches these labels; one that is absent matches nothing. `None` if the selector is invalid.
pub fn selects(selector: &Value, labels: &Value) -> Option<bool> {
    if selector.is_null() {
        return Some(false);
    }
    let mut causes = Vec::new();
    self::selector(&Place::root(selector), &mut causes);
    if !causes.is_empty() {
        return None;
    }
    let expression = |requirement: &Value| {
        let value = labels.get(text_or_empty(requirement, "/key"));
        let among = || value.is_some_and(|value| items(requirement, "/values").contains(value));
        match text_or_empty(requirement, "/operator") {
            "In" => among(),
            "NotIn" => !among(),
            "Exists" => value.is_some(),
            _ => value.is_none(),
        }
    };
    let wanted = selector.get("matchLabels").unwrap_or(&Value::Null);
    Some(includes(labels, wanted) && items(selector, "/matchExpressions").iter().all(expression))
}

/// Reports whether `labels` has all of `wanted`.
pub fn includes(labels: &Value, wanted: &Value) -> bool {
    wanted
        .as_object()
        .into_iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value))
}
