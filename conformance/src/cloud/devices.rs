//! Devices: `devices.kubeedge.io/v1beta1`.

use std::sync::Arc;

use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use peer::{Failure, ensure, fail, now_ms};
use serde_json::{Value, json};
use wire::{Message, Operation, ResourcePath, Upstream};

use super::target::{DELIVERY_DEADLINE, PlayedNode, Target};

fn api(target: &Target, kind: &str, plural: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "devices.kubeedge.io".into(),
        version: "v1beta1".into(),
        api_version: "devices.kubeedge.io/v1beta1".into(),
        kind: kind.into(),
        plural: plural.into(),
    };
    Api::namespaced_with(target.client.clone(), &target.namespace, &resource)
}

/// Creates a model and a device of it on a node.
async fn create(target: &Target, node: &str, name: &str) -> Result<(), Failure> {
    let model = json!({
        "apiVersion": "devices.kubeedge.io/v1beta1", "kind": "DeviceModel", "metadata": {"name": name},
        "spec": {"protocol": "conformance", "properties":
            [{"name": "temperature", "type": "FLOAT", "accessMode": "ReadWrite"}]},
    });
    let device = json!({
        "apiVersion": "devices.kubeedge.io/v1beta1", "kind": "Device", "metadata": {"name": name},
        "spec": {
            "deviceModelRef": {"name": name}, "nodeName": node,
            "protocol": {"protocolName": "conformance", "configData": {"address": 1}},
            "properties": [{"name": "temperature", "desired": {"value": "20", "metadata": {"type": "float"}},
                "reportToCloud": true, "collectCycle": 1000, "reportCycle": 1000,
                "visitors": {"protocolName": "conformance", "configData": {"register": 1}}}],
        },
    });
    for (kind, plural, object) in [
        ("DeviceModel", "devicemodels", model),
        ("Device", "devices", device),
    ] {
        let object: DynamicObject = serde_json::from_value(object)?;
        match api(target, kind, plural)
            .create(&PostParams::default(), &object)
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                return Err(Failure::Skipped(
                    "the cloud does not have devices.kubeedge.io/v1beta1".to_owned(),
                ));
            }
            created => drop(created?),
        }
    }
    Ok(())
}

/// Waits for a device of the node.
async fn expect_device(
    target: &Target,
    node: &mut PlayedNode,
    name: &str,
    wanted: impl Fn(&Message) -> bool,
) -> Result<Message, Failure> {
    let path = format!("{}/device/{name}", target.namespace);
    node.session
        .expect("the device", DELIVERY_DEADLINE, |one| {
            one.route.resource.as_str() == path && wanted(one)
        })
        .await
}

fn names_device(list: &Value, id: &str) -> bool {
    list.as_array()
        .is_some_and(|devices| devices.iter().any(|device| device["id"] == id))
}

pub(super) async fn delivery(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("device").await?;
    create(&target, &node.name, "sensor").await?;
    let id = format!("{}/sensor", target.namespace);
    node.session
        .expect("the membership", DELIVERY_DEADLINE, |one| {
            one.route.resource.as_str() == "membership"
                && names_device(&one.content["added_devices"], &id)
        })
        .await?;
    let model = format!("{}/devicemodel/sensor", target.namespace);
    node.session
        .expect("the device model", DELIVERY_DEADLINE, |one| {
            one.route.resource.as_str() == model
        })
        .await?;
    let device = expect_device(&target, &mut node, "sensor", |_| true).await?;
    ensure!(
        device.content["spec"]["protocol"]["configData"]["address"] == 1,
        "the device lacks its configuration"
    );
    let patch =
        json!([{"op": "replace", "path": "/spec/properties/0/desired/value", "value": "25"}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch)?);
    api(&target, "Device", "devices")
        .patch("sensor", &PatchParams::default(), &patch)
        .await?;
    expect_device(&target, &mut node, "sensor", |one| {
        one.content.pointer("/spec/properties/0/desired/value") == Some(&json!("25"))
    })
    .await?;
    Ok(())
}

pub(super) async fn report(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("device-report").await?;
    create(&target, &node.name, "reporting").await?;
    expect_device(&target, &mut node, "reporting", |_| true).await?;
    let path = ResourcePath::from(format!(
        "device/{}/reporting/twin/edge_updated",
        target.namespace
    ));
    // KubeEdge stores the first report of a property without its value
    for value in ["21", "22"] {
        let update = json!({
            "event_id": uuid::Uuid::new_v4().to_string(), "timestamp": now_ms(),
            "twin": {"temperature": {"actual": {"value": value, "metadata": {"timestamp": now_ms()}}, "optional": true,
                "metadata": {"type": "float"}, "actual_version": {"cloud": 0, "edge": 1}}},
        });
        let request = Upstream::Device {
            path: path.clone(),
            update,
        };
        let answer = node.session.ask(request).await?;
        ensure!(
            answer.content == "OK",
            "the report was answered with {}",
            answer.content
        );
    }
    let reported = |object: Option<&DynamicObject>| {
        let twins = object.and_then(|object| object.data.pointer("/status/twins")?.as_array());
        twins.is_some_and(|twins| {
            twins
                .iter()
                .any(|twin| twin.pointer("/reported/value") == Some(&json!("22")))
        })
    };
    // in a DeviceStatus since v1.20, before in the Device
    let mut last = Ok(());
    for (kind, plural) in [("DeviceStatus", "devicestatuses"), ("Device", "devices")] {
        let api = api(&target, kind, plural);
        last = target
            .wait(&api, "reporting", "the reported value", reported)
            .await;
        if last.is_ok() {
            return Ok(());
        }
    }
    last
}

pub(super) async fn removal(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("device-removal").await?;
    create(&target, &node.name, "removed").await?;
    expect_device(&target, &mut node, "removed", |_| true).await?;
    api(&target, "Device", "devices")
        .delete("removed", &DeleteParams::default())
        .await?;
    let id = format!("{}/removed", target.namespace);
    node.session
        .expect("the membership", DELIVERY_DEADLINE, |one| {
            one.route.resource.as_str() == "membership"
                && names_device(&one.content["removed_devices"], &id)
        })
        .await?;
    let deletion = expect_device(&target, &mut node, "removed", |one| {
        one.route.operation == Operation::Delete
    });
    if deletion.await.is_err() {
        fail!("the deletion of the device was not sent");
    }
    Ok(())
}
