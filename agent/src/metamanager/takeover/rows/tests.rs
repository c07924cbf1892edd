//! Rows as EdgeCore writes them, and invalid ones.

use super::*;

/// Describes what a row is imported as.
fn words(row: Row) -> String {
    match row {
        Row::Object(put) => format!("object {} of {}", put.key(), put.uid()),
        Row::V2Object(put) => format!("mirrored {} of {}", put.key(), put.uid()),
        Row::Status(namespace, name, _) => format!("status {namespace}/{name}"),
        Row::Raw(key, _) => format!("kept {key}"),
        Row::Skipped(why) => format!("left: {why}"),
    }
}

fn named_row(name: &str, more: Value) -> String {
    let mut object = json!({"metadata": {"name": name, "uid": "u"}});
    for (key, value) in more.as_object().unwrap() {
        object[key] = value.clone();
    }
    object.to_string()
}

#[test]
fn rows_of_meta() {
    let here = || json!({"spec": {"nodeName": "edge-1"}});
    let of_file = json!({
        "metadata": {"name": "p", "uid": "u", "annotations": {"kubernetes.io/config.mirror": "h"}},
        "spec": {"nodeName": "edge-1"},
    });
    let rows = [
        (
            "ns/pod/p",
            "pod",
            named_row("p", here()),
            "object pods ns/p of u",
        ),
        (
            "ns/pod/p",
            "pod",
            named_row("p", json!({"spec": {"nodeName": "edge-2"}})),
            "left: it is a pod of another node",
        ),
        (
            "ns/pod/p",
            "pod",
            of_file.to_string(),
            "left: it is the mirror of a static pod",
        ),
        ("ns/podpatch/p", "podpatch", "{}".into(), "status ns/p"),
        (
            "null/node/edge-1",
            "node",
            named_row("edge-1", json!({})),
            "object nodes edge-1 of u",
        ),
        (
            "null/node/edge-2",
            "node",
            named_row("edge-2", json!({})),
            "left: it is another node",
        ),
        (
            "ns/secret/s",
            "secret",
            named_row("s", json!({})),
            "object secrets ns/s of u",
        ),
        (
            "ns/device/d",
            "device",
            named_row("d", json!({})),
            "object device.kubeedge.io ns/d of u",
        ),
        (
            "kube-node-lease/lease/edge-1",
            "lease",
            named_row("edge-1", json!({})),
            "left: this agent makes its own",
        ),
        // an error of the cloud
        (
            "ns/configmap/c",
            "configmap",
            json!({"ErrStatus": {"code": 404, "metadata": {}, "status": "Failure"}}).to_string(),
            "left: it is not the object that its key names",
        ),
        (
            "ns/configmap/c",
            "configmap",
            named_row("other", json!({})),
            "left: it is not the object that its key names",
        ),
        (
            "ns/configmap/c",
            "configmap",
            "{".into(),
            "left: it is no JSON",
        ),
        (
            "ns/configmap/c",
            "configmap",
            "[1]".into(),
            "left: it is not the object that its key names",
        ),
        (
            "node/edge-1/ns/devicemapper/m",
            "devicemapper",
            named_row("m", json!({})),
            "kept devicemapper.edgecore.outrigger.dev m",
        ),
        ("", "", "null".into(), "left: its key names no object"),
    ];
    for (key, kind, value, expected) in rows {
        assert_eq!(
            words(of_meta("edge-1", key, kind, &value)),
            expected,
            "{key} {value}"
        );
    }
}

#[test]
fn rows_of_meta_v2() {
    let here = || json!({"spec": {"nodeName": "edge-1"}});
    let rows = [
        (
            "/core/v1/pods/ns/p",
            named_row("p", here()),
            "mirrored pods ns/p of u",
        ),
        (
            "/core/v1/nodes/null/edge-1",
            named_row("edge-1", json!({})),
            "mirrored nodes edge-1 of u",
        ),
        (
            "/core/v1/services/ns/s",
            named_row("s", json!({})),
            "object services ns/s of u",
        ),
        (
            "/apps.kruise.io/v1/things/ns/t",
            named_row("t", json!({})),
            "object things.apps.kruise.io ns/t of u",
        ),
        (
            "/core/v1/events/ns/e",
            named_row("e", json!({})),
            "left: this agent makes its own",
        ),
        (
            "/devices.kubeedge.io/v1beta1/devices/ns/d",
            named_row("d", json!({})),
            "left: it is in the table meta, too",
        ),
        (
            "/core/v1/services/ns",
            named_row("s", json!({})),
            "left: its key names no object",
        ),
        (
            "core/v1/services/ns/s",
            named_row("s", json!({})),
            "left: its key names no object",
        ),
    ];
    for (key, value, expected) in rows {
        assert_eq!(
            words(of_meta_v2("edge-1", key, &value)),
            expected,
            "{key} {value}"
        );
    }
}

#[test]
fn a_token_is_stored_as_if_this_agent_had_requested_it() {
    let key = r#""app"/"ns"/[]string(nil)/3607/v1.BoundObjectReference{Kind:"Pod", APIVersion:"v1", Name:"p", UID:"u"}"#;
    let value = json!({
        "spec": {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 3607},
        "status": {"token": "t", "expirationTimestamp": "2026-11-21T10:00:00Z"},
    });
    let Row::Raw(place, entry) = of_meta("edge-1", key, "serviceaccounttoken", &value.to_string())
    else {
        panic!("it is not kept")
    };
    let request = json!({"spec": {"audiences": [], "expirationSeconds": 3607, "boundObjectRef": {"kind": "Pod", "uid": "u"}}});
    assert_eq!(
        place,
        stored_token("ns", "app", &request, "", Value::Null).0
    );
    assert_eq!(entry["token"], value);
    assert_eq!(
        (&entry["pod"], &entry["issued"]),
        (&json!("u"), &json!("2026-11-21T08:59:53Z"))
    );
    for (key, value) in [
        (key, json!({"status": {"token": ""}})),
        ("ns/serviceaccounttoken/app", value),
    ] {
        let row = of_meta("edge-1", key, "serviceaccounttoken", &value.to_string());
        assert!(matches!(row, Row::Skipped(_)), "{row:?}");
    }
}
