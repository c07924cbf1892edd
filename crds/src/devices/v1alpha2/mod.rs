//! Converts devices and models between `devices.kubeedge.io/v1alpha2`, which KubeEdge still serves, and `v1beta1`, in which they are
//! stored. It does no IO; objects are JSON.
//!
//! KubeEdge itself converts nothing: fields that one version does not know are lost when an object is read in it. Here, equivalent fields
//! are converted, and what `v1beta1` cannot express is kept in the annotation [`KEPT`].
//!
//! Source: `staging/src/github.com/kubeedge/api/apis/devices` of KubeEdge.

use serde_json::{Map, Value, json};

mod model;
mod protocol;
mod status;

pub use self::{model::model, status::device_status};

/// The version that is served besides the stored one.
pub const VERSION: &str = "v1alpha2";

const GROUP: &str = "devices.kubeedge.io";

/// The annotation with the fields of a `v1alpha2` object that `v1beta1` cannot express, as JSON.
const KEPT: &str = "devices.kubeedge.io/v1alpha2";

/// Returns a `Device` in `version`, converted if it has the other one.
pub fn device(version: &str, object: Value) -> Value {
    convert(version, object, device_to_beta, device_to_alpha)
}

/// Returns `object` in `version`, unchanged if it has that version already.
fn convert(
    version: &str,
    mut object: Value,
    to_beta: fn(&mut Map<String, Value>) -> Map<String, Value>,
    to_alpha: fn(&mut Map<String, Value>, Map<String, Value>),
) -> Value {
    let is_alpha =
        object.get("apiVersion").and_then(Value::as_str) == Some("devices.kubeedge.io/v1alpha2");
    let wants_alpha = version == VERSION;
    if let Value::Object(map) = &mut object {
        map.insert("apiVersion".into(), format!("{GROUP}/{version}").into());
        if is_alpha && !wants_alpha {
            let kept = to_beta(map);
            if !kept.is_empty() {
                let text = Value::Object(kept).to_string();
                child(child(map, "metadata"), "annotations").insert(KEPT.into(), text.into());
            }
        } else if !is_alpha && wants_alpha {
            let kept = take_kept(map);
            to_alpha(map, kept);
        }
    }
    object
}

fn take_kept(map: &mut Map<String, Value>) -> Map<String, Value> {
    let metadata = child(map, "metadata");
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else {
        return Map::new();
    };
    let kept = annotations.shift_remove(KEPT);
    if annotations.is_empty() {
        metadata.shift_remove("annotations");
    }
    kept.as_ref()
        .and_then(Value::as_str)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// Converts a device, and returns the fields to keep in the annotation.
fn device_to_beta(device: &mut Map<String, Value>) -> Map<String, Value> {
    let mut kept = Map::new();
    let twins = device
        .get_mut("status")
        .and_then(|status| status.get_mut("twins"))
        .map(Value::take);
    let Some(Value::Object(spec)) = device.get_mut("spec") else {
        return kept;
    };
    kept.extend(
        spec.shift_remove("data")
            .map(|data| ("data".to_owned(), data)),
    );
    if let Some(selector) = spec.shift_remove("nodeSelector") {
        match node_of(&selector) {
            Some(node) => drop(spec.insert("nodeName".into(), node.into())),
            None => drop(kept.insert("nodeSelector".into(), selector)),
        }
    }
    if let Some(Value::Object(protocol)) = spec.shift_remove("protocol") {
        spec.insert("protocol".into(), protocol::to_beta(protocol));
    }
    let mut properties: Vec<Value> = list(spec.shift_remove("propertyVisitors"))
        .map(property)
        .collect();
    let mut reported = Vec::new();
    for twin in list(twins) {
        let name = twin.get("propertyName").cloned().unwrap_or_default();
        if let Some(desired) = twin.get("desired").filter(|desired| is_said(desired)) {
            let known = properties
                .iter_mut()
                .find(|property| property.get("name") == Some(&name));
            match known.and_then(Value::as_object_mut) {
                Some(property) => drop(property.insert("desired".into(), desired.clone())),
                None => properties.push(json!({"name": name, "desired": desired})),
            }
        }
        let mut shown = Map::from_iter([("propertyName".to_owned(), name)]);
        shown.extend(
            twin.get("reported")
                .map(|value| ("reported".to_owned(), value.clone())),
        );
        reported.push(Value::Object(shown));
    }
    if !properties.is_empty() {
        spec.insert("properties".into(), properties.into());
    }
    if let Some(Value::Object(status)) = device.get_mut("status") {
        status.shift_remove("twins");
        if !reported.is_empty() {
            status.insert("twins".into(), reported.into());
        }
    }
    kept
}

fn device_to_alpha(device: &mut Map<String, Value>, kept: Map<String, Value>) {
    let reported: Vec<_> = list(
        device
            .get_mut("status")
            .and_then(|status| status.get_mut("twins"))
            .map(Value::take),
    )
    .collect();
    let Some(Value::Object(spec)) = device.get_mut("spec") else {
        return;
    };
    if let Some(node) = spec.shift_remove("nodeName") {
        let expression = json!({"key": "", "operator": "In", "values": [node]});
        let term = json!({"matchExpressions": [expression]});
        spec.insert("nodeSelector".into(), json!({"nodeSelectorTerms": [term]}));
    }
    if let Some(Value::Object(protocol)) = spec.shift_remove("protocol") {
        spec.insert("protocol".into(), protocol::to_alpha(protocol));
    }
    let (mut visitors, mut twins) = (Vec::new(), Vec::<Value>::new());
    for property in list(spec.shift_remove("properties")) {
        let name = property.get("name").cloned().unwrap_or_default();
        if let Some(desired) = property.get("desired") {
            twins.push(json!({"propertyName": name, "desired": desired}));
        }
        visitors.extend(visitor(property));
    }
    if !visitors.is_empty() {
        spec.insert("propertyVisitors".into(), visitors.into());
    }
    spec.extend(kept);
    for twin in reported {
        let known = twins
            .iter_mut()
            .find(|known| known.get("propertyName") == twin.get("propertyName"));
        match (known.and_then(Value::as_object_mut), twin.get("reported")) {
            (Some(known), Some(reported)) => {
                drop(known.insert("reported".into(), reported.clone()))
            }
            (Some(_), None) => {}
            (None, _) => twins.push(twin),
        }
    }
    if !twins.is_empty() {
        child(device, "status").insert("twins".into(), twins.into());
    }
}

/// Converts a property's visitor to a property.
fn property(visitor: Value) -> Value {
    let Value::Object(mut visitor) = visitor else {
        return visitor;
    };
    let mut property = Map::new();
    property.extend(
        visitor
            .shift_remove("propertyName")
            .map(|name| ("name".to_owned(), name)),
    );
    for field in ["reportCycle", "collectCycle"] {
        property.extend(
            visitor
                .shift_remove(field)
                .map(|cycle| (field.to_owned(), cycle)),
        );
    }
    if !visitor.is_empty() {
        property.insert("visitors".into(), protocol::to_beta(visitor));
    }
    Value::Object(property)
}

/// Returns a property's visitor; `None` if the property has only a desired value.
fn visitor(property: Value) -> Option<Value> {
    let Value::Object(mut property) = property else {
        return None;
    };
    let mut visitor = Map::new();
    visitor.extend(
        property
            .shift_remove("name")
            .map(|name| ("propertyName".to_owned(), name)),
    );
    for field in ["reportCycle", "collectCycle"] {
        visitor.extend(
            property
                .shift_remove(field)
                .map(|cycle| (field.to_owned(), cycle)),
        );
    }
    let config = property.shift_remove("visitors");
    if let Some(Value::Object(config)) = config
        && let Value::Object(config) = protocol::to_alpha(config)
    {
        visitor.extend(config);
    }
    (visitor.len() > 1).then_some(Value::Object(visitor))
}

/// Reports whether there is a desired value other than the empty one that Go writes for none.
fn is_said(twin: &Value) -> bool {
    let value = twin
        .get("value")
        .and_then(Value::as_str)
        .unwrap_or_default();
    !value.is_empty()
        || twin
            .get("metadata")
            .is_some_and(|metadata| metadata.as_object().is_some_and(|map| !map.is_empty()))
}

/// Returns the node that a selector names: the first value of its first expression, as KubeEdge reads it.
fn node_of(selector: &Value) -> Option<String> {
    let node = selector
        .pointer("/nodeSelectorTerms/0/matchExpressions/0/values/0")?
        .as_str()?;
    (!node.is_empty()).then(|| node.to_owned())
}

fn list(value: Option<Value>) -> impl Iterator<Item = Value> {
    match value {
        Some(Value::Array(list)) => list.into_iter(),
        _ => Vec::new().into_iter(),
    }
}

/// Returns the map under `key`, which is created if it is missing.
fn child<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = map.entry(key).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made a map just above"),
    }
}

#[cfg(test)]
mod tests;
