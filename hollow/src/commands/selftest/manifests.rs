//! The objects of a test: those of `examples/`, with names and a node of the test's own. The pod satisfies the level `restricted`.

use kube::api::DynamicObject;
use serde_json::{Value, json};

/// Returns all objects, named `name` and bound to the node of that name.
pub(super) fn read(name: &str, namespace: &str) -> anyhow::Result<Vec<DynamicObject>> {
    objects(name, namespace)
        .into_iter()
        .map(|object| Ok(serde_json::from_value(object)?))
        .collect()
}

fn objects(name: &str, namespace: &str) -> [Value; 5] {
    let metadata = json!({"name": name, "namespace": namespace});
    let devices = "devices.kubeedge.io/v1beta1";
    let from = |source: &str, key: &str| json!({"valueFrom": {source: {"name": name, "key": key}}});
    let mut greeting = from("configMapKeyRef", "greeting");
    greeting["name"] = json!("GREETING");
    let mut username = from("secretKeyRef", "username");
    username["name"] = json!("USERNAME");
    let property = |name: &str| json!({"name": name, "collectCycle": 100, "reportCycle": 200, "reportToCloud": true});
    let mut target = property("target");
    target["desired"] = json!({"value": "21"});
    [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"greeting": "Hello", "color": "green"}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"username": "gateway"}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {
            "nodeName": name, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "main", "image": "selftest", "command": ["/bin/sh", "-c", "sleep infinity"], "env": [greeting, username],
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [
                    {"name": "config", "mountPath": "/etc/config", "readOnly": true},
                    {"name": "secret", "mountPath": "/etc/secret", "readOnly": true}],
            }],
            "volumes": [
                {"name": "config", "configMap": {"name": name}}, {"name": "secret", "secret": {"secretName": name}}],
        }}),
        json!({"apiVersion": devices, "kind": "DeviceModel", "metadata": metadata, "spec": {"protocol": "virtual", "properties": [
            {"name": "temperature", "type": "FLOAT", "accessMode": "ReadOnly"},
            {"name": "target", "type": "FLOAT", "accessMode": "ReadWrite", "minimum": "5", "maximum": "30"}]}}),
        json!({"apiVersion": devices, "kind": "Device", "metadata": metadata, "spec": {
            "deviceModelRef": {"name": name}, "nodeName": name,
            "protocol": {"protocolName": "virtual", "configData": {"start": 18}}, "properties": [property("temperature"), target],
        }}),
    ]
}
