//! Devices on an edge.

use std::sync::Arc;

use peer::{Failure, now_ms};
use serde_json::{Value, json};
use wire::{Change, Downstream};

use super::state::Cloud;

pub(super) async fn delivery(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let membership = json!({
        "event_id": uuid::Uuid::new_v4().to_string(), "timestamp": now_ms(),
        "added_devices": [{"id": "default/sensor", "name": "sensor"}], "removed_devices": null,
    });
    let message = Downstream::Membership(membership).into_message(now_ms());
    cloud.send(&message).await?;
    let of = |kind: &str, spec: Value| {
        json!({"kind": kind, "apiVersion": "devices.kubeedge.io/v1beta1",
            "metadata": {"name": "sensor", "namespace": "default"}, "spec": spec})
    };
    let model = of(
        "DeviceModel",
        json!({"protocol": "conformance", "properties":
            [{"name": "temperature", "type": "FLOAT", "accessMode": "ReadWrite"}]}),
    );
    let device = of(
        "Device",
        json!({
            "deviceModelRef": {"name": "sensor"}, "nodeName": cloud.node()?,
            "protocol": {"protocolName": "conformance", "configData": {"address": 1}},
            "properties": [{"name": "temperature", "desired": {"value": "20", "metadata": {"type": "float"}},
                "reportToCloud": true, "visitors": {"protocolName": "conformance", "configData": {"register": 1}}}],
        }),
    );
    cloud
        .deliver(Change::Insert, "default/devicemodel/sensor", model)
        .await?;
    let mut device = cloud
        .deliver(Change::Insert, "default/device/sensor", device)
        .await?;
    device["spec"]["properties"][0]["desired"]["value"] = json!("25");
    cloud
        .deliver(Change::Update, "default/device/sensor", device)
        .await?;
    Ok(())
}
