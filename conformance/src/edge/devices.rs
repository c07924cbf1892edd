//! Devices on an edge.

use std::sync::Arc;

use peer::{Failure, now_ms};
use serde_json::{Value, json};
use wire::{Change, Downstream};

use super::state::Cloud;

/// Delivers a device with its membership and model.
pub(super) async fn create(cloud: &Cloud, name: &str) -> Result<Value, Failure> {
    let membership = json!({
        "event_id": uuid::Uuid::new_v4().to_string(), "timestamp": now_ms(),
        "added_devices": [{"id": format!("default/{name}"), "name": name}], "removed_devices": null,
    });
    let message = Downstream::Membership(membership).into_message(now_ms());
    cloud.send(&message).await?;
    let of = |kind: &str, spec: Value| {
        json!({"kind": kind, "apiVersion": "devices.kubeedge.io/v1beta1",
            "metadata": {"name": name, "namespace": "default"}, "spec": spec})
    };
    let model = of(
        "DeviceModel",
        json!({"protocol": "conformance", "properties":
            [{"name": "temperature", "type": "FLOAT", "accessMode": "ReadWrite"}]}),
    );
    let device = of(
        "Device",
        json!({
            "deviceModelRef": {"name": name}, "nodeName": cloud.node()?,
            "protocol": {"protocolName": "conformance", "configData": {"address": 1}},
            "properties": [{"name": "temperature", "desired": {"value": "20", "metadata": {"type": "float"}},
                "reportToCloud": true, "visitors": {"protocolName": "conformance", "configData": {"register": 1}}}],
        }),
    );
    let path = |kind: &str| format!("default/{kind}/{name}");
    cloud
        .deliver(Change::Insert, &path("devicemodel"), model)
        .await?;
    cloud.deliver(Change::Insert, &path("device"), device).await
}

pub(super) async fn delivery(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let mut device = create(&cloud, "sensor").await?;
    device["spec"]["properties"][0]["desired"]["value"] = json!("25");
    cloud
        .deliver(Change::Update, "default/device/sensor", device)
        .await?;
    Ok(())
}
