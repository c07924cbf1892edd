//! Rows of nodes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    cells::{name, since_creation, text_or},
    printer::{AGE, NAME, Printer, default_column, wide},
};
use crate::object::{items, text_or_empty};

pub(super) const PRINTER: Printer = Printer {
    columns: &[
        NAME,
        default_column("Status"),
        default_column("Roles"),
        AGE,
        default_column("Version"),
        wide("Internal-IP"),
        wide("External-IP"),
        wide("OS-Image"),
        wide("Kernel-Version"),
        wide("Container-Runtime"),
    ],
    cells,
};

fn cells(node: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(node),
        status(node).into(),
        roles(node).into(),
        since_creation(node, now),
        text_or_empty(node, "/status/nodeInfo/kubeletVersion").into(),
        address(node, "InternalIP").into(),
        address(node, "ExternalIP").into(),
        text_or(node, "/status/nodeInfo/osImage", "<unknown>").into(),
        text_or(node, "/status/nodeInfo/kernelVersion", "<unknown>").into(),
        text_or(
            node,
            "/status/nodeInfo/containerRuntimeVersion",
            "<unknown>",
        )
        .into(),
    ]
}

fn status(node: &Value) -> String {
    let mut conditions = items(node, "/status/conditions").iter();
    let ready = conditions.find(|condition| text_or_empty(condition, "/type") == "Ready");
    let status = match ready.map(|condition| text_or_empty(condition, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let unschedulable = node
        .pointer("/spec/unschedulable")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    if unschedulable {
        format!("{status},SchedulingDisabled")
    } else {
        status.to_owned()
    }
}

fn roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let role = |(key, value): (&String, &Value)| match key.strip_prefix("node-role.kubernetes.io/")
    {
        Some(role) => Some(role.to_owned()),
        None if key == "kubernetes.io/role" => value.as_str().map(str::to_owned),
        None => None,
    };
    let roles: BTreeSet<_> = labels
        .into_iter()
        .flatten()
        .filter_map(role)
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() {
        "<none>".to_owned()
    } else {
        Vec::from_iter(roles).join(",")
    }
}

fn address<'a>(node: &'a Value, type_: &str) -> &'a str {
    let mut addresses = items(node, "/status/addresses").iter();
    let found = addresses.find(|address| text_or_empty(address, "/type") == type_);
    found.map_or("<none>", |address| text_or_empty(address, "/address"))
}
