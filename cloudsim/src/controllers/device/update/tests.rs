//! The order of messages, as in CloudCore, and what is repeated after a reconnection.

use std::sync::Arc;

use crds::devices::Device;
use wire::{Down, Downstream};

use super::*;

fn device(name: &str, node: &str, uid: &str, revision: &str) -> Value {
    json!({
        "kind": "Device", "apiVersion": "devices.kubeedge.io/v1beta1",
        "metadata": {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": revision},
        "spec": {"nodeName": node, "deviceModelRef": {"name": "m"}, "protocol": {"protocolName": "modbus"}},
    })
}

fn model(uid: &str, revision: &str) -> Value {
    json!({"metadata": {"name": "m", "namespace": "ns", "uid": uid, "resourceVersion": revision}, "spec": {}})
}

fn index(devices: &[Value]) -> Index {
    let mut index = Index::default();
    for device in devices {
        index.apply(&serde_json::from_value::<Device>(device.clone()).unwrap());
    }
    index
}

fn path(kind: ObjectKind, name: &str) -> ObjectPath {
    ObjectPath::new(kind, "ns", name)
}

fn synced_state(rows: &[(&str, ObjectKind, &str, u64)]) -> Synced {
    let rows = rows
        .iter()
        .map(|(uid, kind, name, revision)| ((*uid).to_owned(), (path(*kind, name), *revision)));
    rows.collect()
}

/// Plans for an object; returns the messages.
fn update(
    index: &Index,
    synced: &Synced,
    path: &ObjectPath,
    live: Option<(Value, Option<Value>)>,
) -> (Vec<String>, bool) {
    let before = UpdatePlanner {
        node: "a",
        path,
        synced,
        index,
        now: 1,
    };
    let update = match path.kind {
        ObjectKind::Device => {
            before.device(live.map(|(device, model)| LiveDevice { device, model }))
        }
        _ => before.model(live.map(|(model, _)| model)),
    };
    let said = update.replies.into_iter().map(|reply| {
        let message = match reply {
            Reply::Direct(message) => message,
            Reply::Acknowledged(delivery) => Arc::unwrap_or_clone(delivery.message),
        };
        match Down::from(message).body {
            Downstream::Object {
                change,
                path,
                object,
                ..
            } => format!("{change:?} {path} {}", uid(&object)),
            Downstream::Membership(content) => {
                let id = |what: &str| content[what][0]["id"].as_str().map(str::to_owned);
                format!("+{:?} -{:?}", id("added_devices"), id("removed_devices"))
            }
            other => format!("{other:?}"),
        }
    });
    (said.collect(), update.again)
}

const NONE: Option<(Value, Option<Value>)> = None;

#[test]
fn membership_then_model_then_device() {
    let live = device("d", "a", "d1", "7");
    let index = index(std::slice::from_ref(&live));
    let live = Some((live, Some(model("m1", "5"))));
    let (said, again) = update(
        &index,
        &Synced::default(),
        &path(ObjectKind::Device, "d"),
        live.clone(),
    );
    let membership = r#"+Some("ns/d") -None"#;
    assert_eq!(
        said,
        [
            membership,
            "Insert ns/devicemodel/m m1",
            "Insert ns/device/d d1"
        ]
    );
    assert!(!again);
    // the second device of a model is sent without it
    let known = synced_state(&[("m1", ObjectKind::DeviceModel, "m", 5)]);
    let (said, _) = update(&index, &known, &path(ObjectKind::Device, "d"), live.clone());
    assert_eq!(said, [membership, "Insert ns/device/d d1"]);
    // the connection broke before the device was acknowledged: everything is sent again; afterwards nothing
    let all = synced_state(&[
        ("m1", ObjectKind::DeviceModel, "m", 5),
        ("d1", ObjectKind::Device, "d", 7),
    ]);
    assert_eq!(
        update(&index, &all, &path(ObjectKind::Device, "d"), live).0,
        Vec::<String>::new()
    );
    assert_eq!(
        update(
            &index,
            &all,
            &path(ObjectKind::DeviceModel, "m"),
            Some((model("m1", "5"), None))
        )
        .0
        .len(),
        0
    );
}

#[test]
fn a_change_is_an_update_of_what_has_changed() {
    let live = device("d", "a", "d1", "9");
    let index = index(std::slice::from_ref(&live));
    let all = synced_state(&[
        ("m1", ObjectKind::DeviceModel, "m", 5),
        ("d1", ObjectKind::Device, "d", 7),
    ]);
    let (said, _) = update(
        &index,
        &all,
        &path(ObjectKind::Device, "d"),
        Some((live, Some(model("m1", "5")))),
    );
    assert_eq!(said, ["Update ns/device/d d1"]);
    let (said, _) = update(
        &index,
        &all,
        &path(ObjectKind::DeviceModel, "m"),
        Some((model("m1", "8"), None)),
    );
    assert_eq!(said, ["Update ns/devicemodel/m m1"]);
}

#[test]
fn a_device_waits_for_its_model() {
    let live = device("d", "a", "d1", "7");
    let index = index(std::slice::from_ref(&live));
    let (said, again) = update(
        &index,
        &Synced::default(),
        &path(ObjectKind::Device, "d"),
        Some((live, None)),
    );
    assert!(said.is_empty() && !again);
    // with the model, for a device that uses it
    let live = Some((model("m1", "5"), None));
    assert!(
        update(
            &index,
            &Synced::default(),
            &path(ObjectKind::DeviceModel, "m"),
            live
        )
        .0
        .is_empty()
    );
}

#[test]
fn the_model_goes_last_and_with_the_last_device_only() {
    let (d, e) = (device("d", "a", "d1", "7"), device("e", "a", "e1", "8"));
    let known = synced_state(&[
        ("m1", ObjectKind::DeviceModel, "m", 5),
        ("d1", ObjectKind::Device, "d", 7),
        ("e1", ObjectKind::Device, "e", 8),
    ]);
    let mut index = index(&[d, e]);
    index.remove(&("ns".into(), "d".into()));
    let (said, _) = update(&index, &known, &path(ObjectKind::Device, "d"), NONE);
    assert_eq!(said, [r#"+None -Some("ns/d")"#, "Delete ns/device/d d1"]);
    let known = synced_state(&[
        ("m1", ObjectKind::DeviceModel, "m", 5),
        ("e1", ObjectKind::Device, "e", 8),
    ]);
    index.remove(&("ns".into(), "e".into()));
    // looked at first after a connection, the model waits for the device
    assert!(
        update(&index, &known, &path(ObjectKind::DeviceModel, "m"), NONE)
            .0
            .is_empty()
    );
    let (said, _) = update(&index, &known, &path(ObjectKind::Device, "e"), NONE);
    assert_eq!(
        said,
        [
            r#"+None -Some("ns/e")"#,
            "Delete ns/device/e e1",
            "Delete ns/devicemodel/m m1"
        ]
    );
    // the connection broke between the two
    let known = synced_state(&[("m1", ObjectKind::DeviceModel, "m", 5)]);
    let (said, _) = update(&index, &known, &path(ObjectKind::DeviceModel, "m"), NONE);
    assert_eq!(said, ["Delete ns/devicemodel/m m1"]);
}

#[test]
fn a_model_that_was_deleted_stays_with_its_devices() {
    let live = device("d", "a", "d1", "7");
    let index = index(std::slice::from_ref(&live));
    let known = synced_state(&[
        ("m1", ObjectKind::DeviceModel, "m", 5),
        ("d1", ObjectKind::Device, "d", 6),
    ]);
    assert!(
        update(&index, &known, &path(ObjectKind::DeviceModel, "m"), NONE)
            .0
            .is_empty()
    );
    let (said, _) = update(
        &index,
        &known,
        &path(ObjectKind::Device, "d"),
        Some((live, None)),
    );
    assert_eq!(said, ["Update ns/device/d d1"]);
    // created again under its name
    let again = Some((model("m2", "9"), None));
    let (said, _) = update(&index, &known, &path(ObjectKind::DeviceModel, "m"), again);
    assert_eq!(
        said,
        ["Delete ns/devicemodel/m m1", "Insert ns/devicemodel/m m2"]
    );
}

#[test]
fn a_device_made_anew_under_its_name_goes_before_it_comes() {
    let live = device("d", "a", "d2", "9");
    let index = index(&[device("d", "a", "d1", "7"), live.clone()]);
    let known = synced_state(&[
        ("m1", ObjectKind::DeviceModel, "m", 5),
        ("d1", ObjectKind::Device, "d", 7),
    ]);
    let live = Some((live, Some(model("m1", "5"))));
    let (said, again) = update(&index, &known, &path(ObjectKind::Device, "d"), live.clone());
    assert_eq!(said, [r#"+None -Some("ns/d")"#, "Delete ns/device/d d1"]);
    assert!(again);
    let known = synced_state(&[("m1", ObjectKind::DeviceModel, "m", 5)]);
    let (said, again) = update(&index, &known, &path(ObjectKind::Device, "d"), live);
    assert_eq!(said, [r#"+Some("ns/d") -None"#, "Insert ns/device/d d2"]);
    assert!(!again);
}
