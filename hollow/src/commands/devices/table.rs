//! The table of devices: one line for each property. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crds::devices::{Device, DeviceProperty, DeviceStatus, DeviceStatusStatus, TwinProperty};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::commands::table::age;

const HEAD: [&str; 8] = [
    "NAMESPACE",
    "NAME",
    "NODE",
    "STATE",
    "PROPERTY",
    "DESIRED",
    "REPORTED",
    "AGE",
];
/// Stands for a missing value.
const NOTHING: &str = "-";
/// The state of a device of which nobody tells.
const UNKNOWN: &str = "unknown";

type Row = [String; HEAD.len()];

/// Statuses by namespace and name of their devices.
type Statuses<'a> = BTreeMap<(String, String), &'a DeviceStatusStatus>;

fn key(object: &impl ResourceExt) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn by_device(statuses: &[DeviceStatus]) -> Statuses<'_> {
    statuses
        .iter()
        .filter_map(|object| Some((key(object), object.status.as_ref()?)))
        .collect()
}

/// Returns the reported value of a property.
fn reported<'a>(
    status: Option<&'a DeviceStatusStatus>,
    property: &DeviceProperty,
) -> Option<&'a TwinProperty> {
    let twin = status?
        .twins
        .iter()
        .find(|twin| twin.property_name == property.name)?;
    twin.reported.as_ref()
}

/// Returns when it was reported.
fn reported_at(reported: &TwinProperty) -> Option<Timestamp> {
    Timestamp::from_millisecond(reported.metadata.get("timestamp")?.parse().ok()?).ok()
}

/// Returns the state that was reported of the device; `unknown` while the node that would report another one is missing or not in `ready`.
fn state<'a>(
    device: &Device,
    status: Option<&'a DeviceStatusStatus>,
    ready: &BTreeSet<String>,
) -> Option<&'a str> {
    let state = status?.state.as_deref().filter(|state| !state.is_empty())?;
    let node = device.spec.node_name.as_ref();
    Some(if node.is_some_and(|node| ready.contains(node)) {
        state
    } else {
        UNKNOWN
    })
}

/// Returns the devices as a document for programs; `ready` has the names of the nodes that are Ready.
pub(super) fn document(
    devices: &[Device],
    statuses: &[DeviceStatus],
    ready: &BTreeSet<String>,
) -> Value {
    let statuses = by_device(statuses);
    let told = |device: &Device| {
        let status = statuses.get(&key(device)).copied();
        let property = |property: &DeviceProperty| {
            let reported = reported(status, property);
            json!({
                "name": property.name,
                "desired": property.desired.as_ref().map(|desired| &desired.value),
                "reported": reported.map(|reported| &reported.value),
                "reportedAt": reported.and_then(reported_at),
            })
        };
        let (namespace, name) = key(device);
        json!({
            "namespace": namespace, "name": name, "node": device.spec.node_name,
            "state": state(device, status, ready),
            "properties": device.spec.properties.iter().map(property).collect::<Vec<_>>(),
        })
    };
    json!({"devices": devices.iter().map(told).collect::<Vec<_>>()})
}

/// Returns the rows; `ready` has the names of the nodes that are Ready. The age is that of the reported value.
pub(super) fn rows(
    devices: &[Device],
    statuses: &[DeviceStatus],
    ready: &BTreeSet<String>,
    now: Timestamp,
) -> Vec<Row> {
    let statuses = by_device(statuses);
    let mut rows = vec![HEAD.map(str::to_owned)];
    for device in devices {
        let status = statuses.get(&key(device)).copied();
        let text = |text: Option<&String>| {
            text.filter(|text| !text.is_empty())
                .cloned()
                .unwrap_or_else(|| NOTHING.to_owned())
        };
        let state = state(device, status, ready).map(str::to_owned);
        let mut begin = [
            device.namespace().unwrap_or_default(),
            device.name_any(),
            text(device.spec.node_name.as_ref()),
            text(state.as_ref()),
        ];
        if device.spec.properties.is_empty() {
            let [namespace, name, node, state] = begin;
            rows.push([
                namespace,
                name,
                node,
                state,
                text(None),
                text(None),
                text(None),
                text(None),
            ]);
            continue;
        }
        for property in &device.spec.properties {
            let reported = reported(status, property);
            let [namespace, name, node, state] = begin;
            rows.push([
                namespace,
                name,
                node,
                state,
                text(property.name.as_ref()),
                text(property.desired.as_ref().map(|desired| &desired.value)),
                text(reported.map(|reported| &reported.value)),
                reported
                    .and_then(reported_at)
                    .map_or_else(|| NOTHING.to_owned(), |reported_at| age(reported_at, now)),
            ]);
            // The device is named only in its first line.
            begin = Default::default();
        }
    }
    rows
}

/// Returns the rows as lines with aligned columns.
pub(super) fn lines(rows: &[Row]) -> Vec<String> {
    let mut widths = [0; HEAD.len()];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &Row| {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_property_has_a_line_and_each_device_one_name() {
        let device = |name: &str, spec: serde_json::Value| -> Device {
            serde_json::from_value(json!({
                "apiVersion": "devices.kubeedge.io/v1beta1", "kind": "Device",
                "metadata": {"name": name, "namespace": "hall"}, "spec": spec,
            }))
            .unwrap()
        };
        let properties =
            json!([{"name": "temperature", "desired": {"value": "21.5"}}, {"name": "switch"}]);
        let devices = [
            device(
                "t1",
                json!({"nodeName": "edge-1", "properties": properties}),
            ),
            device("t2", json!({})),
        ];
        let status: DeviceStatus = serde_json::from_value(json!({
            "apiVersion": "devices.kubeedge.io/v1beta1", "kind": "DeviceStatus",
            "metadata": {"name": "t1", "namespace": "hall"}, "spec": {},
            "status": {"state": "online", "twins": [{"propertyName": "temperature",
                "reported": {"value": "22.0", "metadata": {"timestamp": "1000"}}}]},
        }))
        .unwrap();
        let ready = BTreeSet::from(["edge-1".to_owned()]);
        let told = document(&devices, std::slice::from_ref(&status), &ready);
        let property = json!({"name": "temperature", "desired": "21.5", "reported": "22.0", "reportedAt": "1970-01-01T00:00:01Z"});
        assert_eq!(told["devices"][0]["properties"][0], property);
        let bare = json!({"namespace": "hall", "name": "t2", "node": null, "state": null, "properties": []});
        assert_eq!(told["devices"][1], bare);
        let statuses = [status];
        // its node is missing, or not ready
        assert_eq!(
            document(&devices, &statuses, &BTreeSet::new())["devices"][0]["state"],
            "unknown"
        );
        let now = Timestamp::from_second(181).unwrap();
        assert_eq!(
            rows(&devices, &statuses, &BTreeSet::new(), now)[1][3],
            "unknown"
        );
        let lines = lines(&rows(&devices, &statuses, &ready, now));
        assert_eq!(
            lines,
            [
                "NAMESPACE  NAME  NODE    STATE   PROPERTY     DESIRED  REPORTED  AGE",
                "hall       t1    edge-1  online  temperature  21.5     22.0      3m",
                "                                 switch       -        -         -",
                "hall       t2    -       -       -            -        -         -",
            ]
        );
    }
}
