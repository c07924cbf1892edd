//! The list of devices: one row for each property. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crds::devices::{Device, DeviceProperty, DeviceStatus, DeviceStatusStatus, TwinProperty};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::commands::{
    listing::{Column, Listing, Row, Rows},
    table::age,
};

const COLUMNS: [Column; 8] = [
    Column::new("NAMESPACE"),
    Column::new("NAME"),
    Column::new("NODE"),
    Column::new("STATE"),
    Column::new("PROPERTY"),
    Column::new("DESIRED"),
    Column::new("REPORTED"),
    Column::age("AGE"),
];
/// Stands for a missing value.
const NOTHING: &str = "-";
/// The state of a device of which nobody tells.
const UNKNOWN: &str = "unknown";

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
fn reported_value<'a>(
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

/// Returns the list; `ready` has the names of the nodes that are Ready. The age is that of the reported value.
pub(super) fn listing(
    devices: &[Device],
    statuses: &[DeviceStatus],
    ready: &BTreeSet<String>,
    now: Timestamp,
) -> Listing {
    let statuses = by_device(statuses);
    let mut documents = Vec::new();
    let mut rows = Vec::new();
    for device in devices {
        let status = statuses.get(&key(device)).copied();
        let state = state(device, status, ready);
        let document = document(device, status, state);
        rows.extend(
            rows_of(device, status, state, now)
                .into_iter()
                .map(|(property, cells)| Row {
                    name: format!("device.devices.kubeedge.io/{}", device.name_any()),
                    id: format!("{:?}", (key(device), property)),
                    document: document.clone(),
                    cells,
                }),
        );
        documents.push(document);
    }
    Listing {
        document: json!({"devices": documents}),
        tables: vec![Rows {
            columns: &COLUMNS,
            rows,
            if_empty: "no devices; create one with `kubectl apply`",
        }],
        notes: Vec::new(),
        warnings: Vec::new(),
    }
}

/// Returns a device for programs.
fn document(device: &Device, status: Option<&DeviceStatusStatus>, state: Option<&str>) -> Value {
    let property = |property: &DeviceProperty| {
        let reported = reported_value(status, property);
        json!({
            "name": property.name,
            "desired": property.desired.as_ref().map(|desired| &desired.value),
            "reported": reported.map(|reported| &reported.value),
            "reportedAt": reported.and_then(reported_at),
        })
    };
    let (namespace, name) = key(device);
    json!({
        "namespace": namespace, "name": name, "node": device.spec.node_name, "state": state,
        "properties": device.spec.properties.iter().map(property).collect::<Vec<_>>(),
    })
}

/// Returns the cells of each property with its name; one row for a device without properties.
fn rows_of(
    device: &Device,
    status: Option<&DeviceStatusStatus>,
    state: Option<&str>,
    now: Timestamp,
) -> Vec<(String, Vec<String>)> {
    let text = |text: Option<&str>| {
        text.filter(|text| !text.is_empty())
            .unwrap_or(NOTHING)
            .to_owned()
    };
    let cells = |own: [String; 4]| {
        let (namespace, name) = key(device);
        let (node, state) = (text(device.spec.node_name.as_deref()), text(state));
        [namespace, name, node, state]
            .into_iter()
            .chain(own)
            .collect()
    };
    if device.spec.properties.is_empty() {
        return vec![(String::new(), cells([NOTHING; 4].map(str::to_owned)))];
    }
    let row = |property: &DeviceProperty| {
        let reported = reported_value(status, property);
        let desired = property.desired.as_ref();
        let age = reported
            .and_then(reported_at)
            .map(|reported_at| age(reported_at, now));
        let own = [
            text(property.name.as_deref()),
            text(desired.map(|desired| desired.value.as_str())),
            text(reported.map(|reported| reported.value.as_str())),
            text(age.as_deref()),
        ];
        (property.name.clone().unwrap_or_default(), cells(own))
    };
    device.spec.properties.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_property_has_a_row_with_the_name_of_its_device() {
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
        let statuses = [status];
        let now = Timestamp::from_second(181).unwrap();
        let list = |ready: &BTreeSet<String>| listing(&devices, &statuses, ready, now);
        let told = list(&ready).document;
        let property = json!({"name": "temperature", "desired": "21.5", "reported": "22.0", "reportedAt": "1970-01-01T00:00:01Z"});
        assert_eq!(told["devices"][0]["properties"][0], property);
        let bare = json!({"namespace": "hall", "name": "t2", "node": null, "state": null, "properties": []});
        assert_eq!(told["devices"][1], bare);
        // its node is missing, or not ready
        let unknown = list(&BTreeSet::new());
        assert_eq!(unknown.document["devices"][0]["state"], "unknown");
        assert_eq!(unknown.tables[0].rows[0].cells[3], "unknown");
        let rows = list(&ready).tables.remove(0).rows;
        let lines: Vec<String> = rows.iter().map(|row| row.cells.join(" ")).collect();
        assert_eq!(
            lines,
            [
                "hall t1 edge-1 online temperature 21.5 22.0 3m",
                "hall t1 edge-1 online switch - - -",
                "hall t2 - - - - - -",
            ]
        );
        assert_eq!(rows[0].name, "device.devices.kubeedge.io/t1");
        assert_ne!(rows[0].id, rows[1].id);
    }
}
