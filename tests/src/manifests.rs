//! The manifests that tests apply.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Returns a pod with one container called `main`, on the node if one is named.
pub fn pod(name: &str, node: Option<&str>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 2,
            "containers": [{"name": "main", "image": "registry.example/app:1"}],
        },
    })
}

/// Returns a pod on `node` with these annotations of the simulated runtime for its container.
pub fn pod_that(name: &str, node: &str, behaviour: &[(&str, &str)]) -> Value {
    let mut pod = pod(name, Some(node));
    let annotations: BTreeMap<String, &str> = behaviour
        .iter()
        .map(|(key, value)| (format!("sim.outrigger.dev/main.{key}"), *value))
        .collect();
    pod["metadata"]["annotations"] = json!(annotations);
    pod
}

/// Returns a ConfigMap in namespace `default`.
pub fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data})
}

/// Returns a Secret in namespace `default` with plain text values.
pub fn secret(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}, "stringData": data})
}

/// Returns the `DeviceModel` `thermometer` in namespace `default`, of the protocol `virtual`.
pub fn device_model() -> Value {
    json!({
        "apiVersion": "devices.kubeedge.io/v1beta1", "kind": "DeviceModel",
        "metadata": {"name": "thermometer", "namespace": "default"},
        "spec": {"protocol": "virtual", "properties": [
            {"name": "temperature", "type": "FLOAT", "accessMode": "ReadWrite", "minimum": "-20", "maximum": "60",
                "unit": "celsius"},
            {"name": "switch", "type": "BOOLEAN", "accessMode": "ReadWrite"}]},
    })
}

/// Returns a Device of that model on `node`, in namespace `default`, whose `temperature` has the desired value `desired`.
pub fn device(name: &str, node: &str, desired: Option<&str>) -> Value {
    let mut property = json!({"name": "temperature", "collectCycle": 20, "reportCycle": 20, "reportToCloud": true});
    if let Some(desired) = desired {
        property["desired"] = json!({"value": desired});
    }
    json!({
        "apiVersion": "devices.kubeedge.io/v1beta1", "kind": "Device",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"deviceModelRef": {"name": "thermometer"}, "nodeName": node,
            "protocol": {"protocolName": "virtual"}, "properties": [property]},
    })
}
