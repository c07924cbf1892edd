//! Converts objects as in KubeEdge's samples and in public manifests.

use serde_json::json;

use super::*;

fn alpha_device() -> Value {
    json!({
        "apiVersion": "devices.kubeedge.io/v1alpha2", "kind": "Device",
        "metadata": {"name": "sensor", "labels": {"model": "tag"}},
        "spec": {
            "deviceModelRef": {"name": "tag"},
            "protocol": {
                "modbus": {"slaveID": 1},
                "common": {"com": {"serialPort": "/dev/ttyS0", "baudRate": 9600}, "collectTimeout": 10},
            },
            "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "", "operator": "In", "values": ["edge-1"]}]}]},
            "propertyVisitors": [{
                "propertyName": "temperature", "collectCycle": 500, "reportCycle": 1000,
                "modbus": {"register": "HoldingRegister", "offset": 2, "limit": 1, "scale": 0.1},
            }],
            "data": {"dataTopic": "$ke/events/device/+/data", "dataProperties": [{"propertyName": "temperature", "metadata": {"type": "string"}}]},
        },
        "status": {"twins": [
            {"propertyName": "temperature", "desired": {"value": "20", "metadata": {"type": "int"}}, "reported": {"value": "19"}},
            {"propertyName": "enabled", "desired": {"value": "true"}},
        ]},
    })
}

#[test]
fn a_device_means_the_same_in_both_versions() {
    let beta = device("v1beta1", alpha_device());
    assert_eq!(beta["apiVersion"], "devices.kubeedge.io/v1beta1");
    assert_eq!(
        beta["spec"],
        json!({
            "deviceModelRef": {"name": "tag"}, "nodeName": "edge-1",
            "protocol": {"protocolName": "modbus", "configData": {
                "slaveID": 1, "serialPort": "/dev/ttyS0", "baudRate": 9600, "collectTimeout": 10,
            }},
            "properties": [
                {
                    "name": "temperature", "reportCycle": 1000, "collectCycle": 500,
                    "visitors": {"protocolName": "modbus", "configData": {"register": "HoldingRegister", "offset": 2, "limit": 1, "scale": 0.1}},
                    "desired": {"value": "20", "metadata": {"type": "int"}},
                },
                {"name": "enabled", "desired": {"value": "true"}},
            ],
        })
    );
    assert_eq!(
        beta["status"]["twins"][0],
        json!({"propertyName": "temperature", "reported": {"value": "19"}})
    );
    assert_eq!(device("v1alpha2", beta.clone()), alpha_device());
    // an object that has the version already stays unchanged
    assert_eq!(device("v1beta1", beta.clone()), beta);
    assert_eq!(device("v1alpha2", alpha_device()), alpha_device());
    let typed: super::super::DeviceSpec = serde_json::from_value(beta["spec"].clone()).unwrap();
    assert_eq!(typed.node_name.as_deref(), Some("edge-1"));
}

#[test]
fn other_protocols_keep_their_settings() {
    let mut customized = alpha_device();
    customized["spec"]["protocol"] = json!({
        "customizedProtocol": {"protocolName": "ble", "configData": {"ip": "192.0.2.1", "port": 9}},
        "common": {"customizedValues": {"a": 1}},
    });
    customized["spec"]["propertyVisitors"] = json!([{
        "propertyName": "temperature", "customizedProtocol": {"protocolName": "ble", "configData": {"uuid": "f0"}},
        "customizedValues": {"b": 2},
    }]);
    let beta = device("v1beta1", customized.clone());
    assert_eq!(
        beta["spec"]["protocol"],
        json!({"protocolName": "ble", "configData": {"ip": "192.0.2.1", "port": 9, "common": {"customizedValues": {"a": 1}}}})
    );
    assert_eq!(device("v1alpha2", beta), customized);
    let bare = json!({"apiVersion": "devices.kubeedge.io/v1alpha2", "kind": "Device", "metadata": {"name": "a"}});
    assert_eq!(device("v1alpha2", device("v1beta1", bare.clone())), bare);
}

#[test]
fn a_model_means_the_same_in_both_versions() {
    let alpha = json!({
        "apiVersion": "devices.kubeedge.io/v1alpha2", "kind": "DeviceModel", "metadata": {"name": "tag"},
        "spec": {"protocol": "modbus", "properties": [
            {"name": "temperature", "description": "in degrees", "type": {"int": {"accessMode": "ReadOnly", "minimum": -20, "maximum": 100, "unit": "C", "defaultValue": 0}}},
            {"name": "ratio", "type": {"float": {"accessMode": "ReadWrite", "maximum": 1.5}}},
            {"name": "on", "type": {"boolean": {"accessMode": "ReadWrite", "defaultValue": true}}},
        ]},
    });
    let beta = model("v1beta1", alpha.clone());
    assert_eq!(
        beta["spec"]["properties"],
        json!([
            {"name": "temperature", "description": "in degrees", "type": "INT", "accessMode": "ReadOnly", "minimum": "-20", "maximum": "100", "unit": "C"},
            {"name": "ratio", "type": "FLOAT", "accessMode": "ReadWrite", "maximum": "1.5"},
            {"name": "on", "type": "BOOLEAN", "accessMode": "ReadWrite"},
        ])
    );
    assert_eq!(model("v1alpha2", beta), alpha);
}

#[test]
fn a_status_means_the_same_in_both_versions() {
    let twin = |wanted: &str| json!({"propertyName": "on", wanted: {"value": "true"}, "reported": {"value": "false"}});
    let alpha = json!({
        "apiVersion": "devices.kubeedge.io/v1alpha2", "kind": "DeviceStatus", "metadata": {"name": "led"},
        "twins": [{"propertyName": "on", "reported": {"value": "false"}, "desired": {"value": "true"}}],
    });
    let beta = device_status("v1beta1", alpha.clone());
    assert_eq!(beta["apiVersion"], "devices.kubeedge.io/v1beta1");
    assert_eq!(beta["status"], json!({"twins": [twin("observedDesired")]}));
    assert!(beta.get("twins").is_none());
    assert_eq!(device_status("v1alpha2", beta), alpha);
    let bare = json!({"apiVersion": "devices.kubeedge.io/v1alpha2", "kind": "DeviceStatus", "metadata": {}});
    assert_eq!(
        device_status("v1alpha2", device_status("v1beta1", bare.clone())),
        bare
    );
}
