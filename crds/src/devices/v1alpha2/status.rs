//! Converts a `DeviceStatus`: in `v1alpha2` its twins stand in the object itself, and their wanted values are called `desired`.

use serde_json::{Map, Value};

use super::{child, convert, list};

/// Returns a `DeviceStatus` in `version`, converted if it has the other one.
pub fn device_status(version: &str, object: Value) -> Value {
    convert(version, object, to_beta, to_alpha)
}

/// Nothing has to be kept: `v1beta1` has all fields.
fn to_beta(object: &mut Map<String, Value>) -> Map<String, Value> {
    if let Some(twins) = object.shift_remove("twins") {
        let twins = rename(twins, "desired", "observedDesired");
        child(object, "status").insert("twins".into(), twins);
    }
    Map::new()
}

fn to_alpha(object: &mut Map<String, Value>, _: Map<String, Value>) {
    object.shift_remove("spec");
    let status = object.shift_remove("status");
    let twins = status.and_then(|mut status| status.get_mut("twins").map(Value::take));
    if let Some(twins) = twins {
        object.insert("twins".into(), rename(twins, "observedDesired", "desired"));
    }
}

fn rename(twins: Value, from: &str, to: &str) -> Value {
    let rename = |mut twin: Value| {
        if let Value::Object(fields) = &mut twin
            && let Some(value) = fields.shift_remove(from)
        {
            fields.insert(to.to_owned(), value);
        }
        twin
    };
    list(Some(twins)).map(rename).collect()
}
