//! An object as `kubectl describe` shows it: its most useful lines. Pure.
//!
//! Rows of a table say which fields of a kind are shown, and in which order; absent fields are left out.

use jiff::Timestamp;
use serde_json::Value;

use crate::cli::ObjectKind;

/// Where the values of a line begin.
const COLUMN: usize = 20;

/// How the value of a field is shown.
#[derive(Clone, Copy)]
enum Shape {
    /// As text.
    Text,
    /// A line for each `key=value`.
    Map,
    /// A line for each element of a list, with these fields of it.
    Rows(&'static [&'static str]),
    /// A container, with its state.
    Containers,
}
use Shape::{Containers, Map, Rows, Text};

/// A line: its title, the field, and how it is shown.
type Line = (&'static str, &'static str, Shape);

/// The annotation that kubectl does not show either.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const CONDITION: &[&str] = &["type", "status", "reason", "message"];
const TAINT: &[&str] = &["key", "value", "effect"];

/// The lines of every kind.
const COMMON: &[Line] = &[
    ("Name", "/metadata/name", Text),
    ("Namespace", "/metadata/namespace", Text),
    ("Labels", "/metadata/labels", Map),
    ("Annotations", "/metadata/annotations", Map),
    ("Created", "/metadata/creationTimestamp", Text),
    ("Deleted", "/metadata/deletionTimestamp", Text),
];
const POD: &[Line] = &[
    ("Priority", "/spec/priority", Text),
    ("Service Account", "/spec/serviceAccountName", Text),
    ("Node", "/spec/nodeName", Text),
    ("Start Time", "/status/startTime", Text),
    ("Status", "/status/phase", Text),
    ("Reason", "/status/reason", Text),
    ("Message", "/status/message", Text),
    ("IP", "/status/podIP", Text),
    (
        "Controlled By",
        "/metadata/ownerReferences",
        Rows(&["kind", "name"]),
    ),
    ("Init Containers", "/spec/initContainers", Containers),
    ("Containers", "/spec/containers", Containers),
    ("Conditions", "/status/conditions", Rows(CONDITION)),
    ("Volumes", "/spec/volumes", Rows(&["name"])),
    ("QoS Class", "/status/qosClass", Text),
    ("Node-Selectors", "/spec/nodeSelector", Map),
    (
        "Tolerations",
        "/spec/tolerations",
        Rows(&["key", "operator", "value", "effect"]),
    ),
];
const NODE: &[Line] = &[
    ("Taints", "/spec/taints", Rows(TAINT)),
    ("Unschedulable", "/spec/unschedulable", Text),
    ("Conditions", "/status/conditions", Rows(CONDITION)),
    ("Addresses", "/status/addresses", Rows(&["type", "address"])),
    ("Capacity", "/status/capacity", Map),
    ("Allocatable", "/status/allocatable", Map),
    ("System Info", "/status/nodeInfo", Map),
];
const DEVICE: &[Line] = &[
    ("Model", "/spec/deviceModelRef/name", Text),
    ("Protocol", "/spec/protocol/protocolName", Text),
    ("Node", "/spec/nodeName", Text),
    ("State", "/status/state", Text),
    ("Last Online", "/status/lastOnlineTime", Text),
    (
        "Properties",
        "/spec/properties",
        Rows(&["name", "desired/value"]),
    ),
    (
        "Twins",
        "/status/twins",
        Rows(&["propertyName", "observedDesired/value", "reported/value"]),
    ),
];
/// The lines of a container, from its spec.
const CONTAINER: &[Line] = &[
    ("Image", "/image", Text),
    (
        "Ports",
        "/ports",
        Rows(&["containerPort", "protocol", "name"]),
    ),
    ("Command", "/command", Rows(&[""])),
    ("Args", "/args", Rows(&[""])),
    ("Limits", "/resources/limits", Map),
    ("Requests", "/resources/requests", Map),
    ("Environment", "/env", Rows(&["name", "value"])),
    ("Mounts", "/volumeMounts", Rows(&["mountPath", "name"])),
];
/// The lines of a container, from its status.
const CONTAINER_STATUS: &[Line] = &[
    ("Container ID", "/containerID", Text),
    ("Image ID", "/imageID", Text),
    ("Ready", "/ready", Text),
    ("Restart Count", "/restartCount", Text),
];
/// The lines of a state of a container.
const STATE: &[Line] = &[
    ("Reason", "/reason", Text),
    ("Message", "/message", Text),
    ("Exit Code", "/exitCode", Text),
    ("Started", "/startedAt", Text),
    ("Finished", "/finishedAt", Text),
];

/// Returns the text of an object.
pub(super) fn describe(kind: ObjectKind, object: &Value, now: Timestamp) -> String {
    let mut text = String::new();
    let own = match kind {
        ObjectKind::Pods => POD,
        ObjectKind::Nodes => NODE,
        ObjectKind::Devices => DEVICE,
    };
    for line in COMMON.iter().chain(own) {
        write_line(&mut text, 0, line, object, object);
    }
    let age = kubeapi::table::age(object.pointer("/metadata/creationTimestamp"), now);
    write(&mut text, 0, "Age", &age);
    text
}

/// Writes a field of `value`; `object` has the status of its containers.
fn write_line(
    text: &mut String,
    depth: usize,
    (title, field, shape): &Line,
    value: &Value,
    object: &Value,
) {
    let Some(value) = value.pointer(field).filter(|value| !value.is_null()) else {
        return;
    };
    let lines: Vec<String> = match shape {
        Text => vec![word(value)],
        Map => {
            let map = value.as_object().into_iter().flatten();
            map.filter(|(key, _)| *key != LAST_APPLIED)
                .map(|(key, value)| format!("{key}={}", word(value)))
                .collect()
        }
        Rows(fields) => {
            let rows = value.as_array().into_iter().flatten();
            rows.map(|row| cells(row, fields)).collect()
        }
        Containers => {
            write(text, depth, title, "");
            for container in value.as_array().into_iter().flatten() {
                write_container(text, container, object);
            }
            return;
        }
    };
    for (number, line) in lines.iter().enumerate() {
        let title = if number == 0 { title } else { "" };
        write(text, depth, title, line);
    }
}

/// Returns the fields of an element that it has, separated by spaces.
fn cells(row: &Value, fields: &[&str]) -> String {
    let field = |name: &&str| match *name {
        "" => Some(row),
        name => row.pointer(&format!("/{name}")),
    };
    let found: Vec<String> = fields.iter().filter_map(field).map(word).collect();
    found.join("  ")
}

fn write_container(text: &mut String, container: &Value, object: &Value) {
    let name = &container["name"];
    write(text, 1, &word(name), "");
    for line in CONTAINER {
        write_line(text, 2, line, container, container);
    }
    let all = ["/status/containerStatuses", "/status/initContainerStatuses"];
    let mut all = all
        .iter()
        .filter_map(|list| object.pointer(list)?.as_array())
        .flatten();
    let Some(status) = all.find(|status| &status["name"] == name) else {
        return;
    };
    for (title, field) in [("State", "state"), ("Last State", "lastState")] {
        let state = status[field]
            .as_object()
            .and_then(|state| state.iter().next());
        let Some((word, details)) = state else {
            continue;
        };
        write(text, 2, title, word);
        for line in STATE {
            write_line(text, 3, line, details, details);
        }
    }
    for line in CONTAINER_STATUS {
        write_line(text, 2, line, status, status);
    }
}

fn write(text: &mut String, depth: usize, title: &str, value: &str) {
    let title = match title {
        "" => String::new(),
        title => format!("{:indent$}{title}:", "", indent = depth * 2),
    };
    let line = format!("{title:<COLUMN$} {value}");
    text.push_str(line.trim_end());
    text.push('\n');
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) => wire::text::printable(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_shown_with_their_useful_lines() {
        let now = "2026-01-01T00:05:00Z".parse().unwrap();
        let created = "2026-01-01T00:00:00Z";
        let pod = json!({
            "metadata": {"name": "web", "namespace": "default", "creationTimestamp": created, "labels": {"app": "web", "tier": "front"},
                "annotations": {LAST_APPLIED: "{}"},
                "managedFields": [{}], "ownerReferences": [{"kind": "ReplicaSet", "name": "web-1"}]},
            "spec": {"nodeName": "edge-1", "initContainers": [{"name": "init", "image": "a:1", "command": ["sh", "-c", "true"]}],
                "containers": [{"name": "main", "image": "nginx:1", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {"limits": {"cpu": "1"}}, "env": [{"name": "A", "value": "b\u{7}"}]}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "main", "ready": true, "restartCount": 1, "containerID": "containerd://1",
                    "state": {"running": {"startedAt": created}}, "lastState": {"terminated": {"exitCode": 3, "reason": "Error"}}}]},
        });
        let device = json!({"metadata": {"name": "t1", "namespace": "default", "creationTimestamp": created},
            "spec": {"deviceModelRef": {"name": "thermometer"}, "properties": [{"name": "target", "desired": {"value": "25"}}]},
            "status": {"twins": [{"propertyName": "target", "reported": {"value": "24"}}]}});
        let node = json!({"metadata": {"name": "edge-1", "creationTimestamp": created},
            "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "EdgeReady"}], "capacity": {"cpu": "2"}}});
        let all = [
            (ObjectKind::Pods, pod),
            (ObjectKind::Nodes, node),
            (ObjectKind::Devices, device),
        ];
        let texts = all.map(|(kind, object)| describe(kind, &object, now));
        insta::assert_snapshot!(texts.join("---\n"));
    }
}
