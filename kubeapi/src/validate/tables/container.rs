//! Containers of pods.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    cause::Cause,
    object::{items, names, text_or_empty},
    validate::{
        engine::{
            Row,
            Rule::{Absent, Check, Choice, Format, MaxItems, Name, OneOf, Required, Table, Unique},
            row,
        },
        numbers::{LAST_PORT, range},
        place::Place,
    },
};

use super::{env, mounts, probe, resources, security};

/// The most ports of a container.
const MAX_PORTS: usize = 1024;
const OF_OTHERS: &str = "may not be set for init containers without restartPolicy=Always";
const OF_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";

/// `containers[*]`.
pub static CONTAINER: &[Row] = &[
    row("", Table(COMMON)),
    row("lifecycle?", Table(probe::LIFECYCLE)),
    row("livenessProbe?", Table(probe::LIVENESS)),
    row("readinessProbe?", Table(probe::READINESS)),
    row("startupProbe?", Table(probe::LIVENESS)),
    row("restartPolicy", OneOf(&["Always", "Never", "OnFailure"])),
];

/// `initContainers[*]`.
pub static INIT: &[Row] = &[
    row("", Table(COMMON)),
    row("restartPolicy", OneOf(&["Always"])),
    row("", Check(init)),
    row("", Check(own_host_ports)),
];
static SIDECAR: &[Row] = &[
    row("lifecycle?", Table(probe::LIFECYCLE)),
    row("livenessProbe?", Table(probe::LIVENESS)),
    row("readinessProbe?", Table(probe::READINESS)),
    row("startupProbe?", Table(probe::LIVENESS)),
];
static NO_SIDECAR: &[Row] = &[
    row("lifecycle", Absent(OF_OTHERS)),
    row("livenessProbe", Absent(OF_OTHERS)),
    row("readinessProbe", Absent(OF_OTHERS)),
    row("startupProbe", Absent(OF_OTHERS)),
];

/// `ephemeralContainers[*]`.
pub static EPHEMERAL: &[Row] = &[
    row("", Table(COMMON)),
    row("image", Check(check_trimmed)),
    row("ports", Absent(OF_EPHEMERAL)),
    row("resources", Check(no_resources)),
    row("livenessProbe", Absent(OF_EPHEMERAL)),
    row("readinessProbe", Absent(OF_EPHEMERAL)),
    row("startupProbe", Absent(OF_EPHEMERAL)),
    row("lifecycle", Absent(OF_EPHEMERAL)),
    row("restartPolicy", Absent(OF_EPHEMERAL)),
    row("resizePolicy", Absent(OF_EPHEMERAL)),
    row("volumeMounts[*].subPath", Absent(OF_EPHEMERAL)),
    row("volumeMounts[*].subPathExpr", Absent(OF_EPHEMERAL)),
];

static COMMON: &[Row] = &[
    row("name", Name(names::dns_label)),
    row("image", Required("")),
    row(
        "terminationMessagePolicy",
        Choice(&["File", "FallbackToLogsOnError"]),
    ),
    row("ports", MaxItems(MAX_PORTS)),
    row("ports[*]", Table(PORT)),
    row("ports", Unique("name")),
    row("env[*]", Table(env::VARIABLE)),
    row("envFrom[*]", Table(env::FROM)),
    row("envFrom", Check(env::sources)),
    row("volumeMounts", Check(mounts::mounts)),
    row("volumeDevices", Check(mounts::devices)),
    row(
        "imagePullPolicy",
        Choice(&["Always", "IfNotPresent", "Never"]),
    ),
    row("resources", Check(resources::requirements)),
    row("resizePolicy", Check(resize)),
    row("securityContext?", Table(security::CONTAINER)),
];

static PORT: &[Row] = &[
    row("name", Format(names::port_name)),
    row("containerPort", Required("")),
    row("containerPort", Check(port_number)),
    row("hostPort", Check(port_number)),
    row("protocol", env::PROTOCOL),
];

/// Checks the image's name in pods; templates may have others.
pub static IMAGE: &[Row] = &[row("image", Check(check_trimmed))];

/// Checks a number that is not 0.
fn port_number(port: &Place<'_>, causes: &mut Vec<Cause>) {
    let number = port.value.as_i64().unwrap_or_default();
    if number != 0 && !(1..=LAST_PORT).contains(&number) {
        causes.push(port.refusal(&range(1, LAST_PORT)));
    }
}

fn check_trimmed(image: &Place<'_>, causes: &mut Vec<Cause>) {
    if image.value.as_str().is_some_and(|text| text.trim() != text) {
        causes.push(image.refusal("must not have leading or trailing whitespace"));
    }
}

fn no_resources(resources: &Place<'_>, causes: &mut Vec<Cause>) {
    if resources
        .value
        .as_object()
        .is_some_and(|resources| !resources.is_empty())
    {
        causes.push(Cause::forbidden(resources.path(), OF_EPHEMERAL));
    }
}

fn init(container: &Place<'_>, causes: &mut Vec<Cause>) {
    let rows = if container.text("restartPolicy") == "Always" {
        SIDECAR
    } else {
        NO_SIDECAR
    };
    crate::validate::engine::check(rows, container, causes);
}

/// Checks `resizePolicy`; most of Kubernetes' messages are about the list.
fn resize(list: &Place<'_>, causes: &mut Vec<Cause>) {
    const POLICIES: &[&str] = &["NotRequired", "RestartContainer"];
    let never = text_or_empty(list.nearest("spec"), "/restartPolicy") == "Never";
    let mut taken = HashSet::new();
    for (index, item) in list.list().iter().enumerate() {
        let item = list.item(index, item);
        let (name, policy) = (item.text("resourceName"), item.text("restartPolicy"));
        if !taken.insert(name) {
            causes.push(Cause::duplicate(item.path(), name));
        }
        for (value, known) in [(name, &["cpu", "memory"][..]), (policy, POLICIES)] {
            if value.is_empty() {
                causes.push(Cause::required(list.path(), ""));
            } else if !known.contains(&value) {
                causes.push(Cause::unsupported(list.path(), &value.into(), known));
            }
        }
        if never && policy != "NotRequired" {
            let why = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            causes.push(Cause::invalid(list.path(), &policy.into(), why));
        }
    }
}

/// Checks that no two of these containers use the same port of the host.
pub fn host_ports(list: &Place<'_>, causes: &mut Vec<Cause>) {
    let mut taken = HashSet::new();
    for (index, container) in list.list().iter().enumerate() {
        ports_of(&list.item(index, container), &mut taken, causes);
    }
}

/// The same for an init container, which runs alone. Kubernetes' message counts it as the first.
fn own_host_ports(container: &Place<'_>, causes: &mut Vec<Cause>) {
    ports_of(container, &mut HashSet::new(), causes);
}

fn ports_of(container: &Place<'_>, taken: &mut HashSet<String>, causes: &mut Vec<Cause>) {
    for (index, port) in container.items("ports").iter().enumerate() {
        let Some(number) = port
            .get("hostPort")
            .and_then(Value::as_i64)
            .filter(|number| *number != 0)
        else {
            continue;
        };
        let wanted = format!(
            "{}/{}/{number}",
            text_or_empty(port, "/protocol"),
            text_or_empty(port, "/hostIP")
        );
        if taken.contains(&wanted) {
            causes.push(Cause::duplicate(
                container.field(&format!("ports[{index}].hostPort")),
                &wanted,
            ));
        }
        taken.insert(wanted);
    }
}

/// Checks that the containers of a pod in the host's network listen on the host's ports.
pub fn host_network(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    if !spec.is("hostNetwork") {
        return;
    }
    let is_pod = spec.nearest("template").is_null();
    for (at, container) in spec.items("containers").iter().enumerate() {
        for (index, port) in items(container, "/ports").iter().enumerate() {
            let number = |name: &str| port.get(name).and_then(Value::as_i64).unwrap_or_default();
            let own = number("hostPort");
            if (is_pod || own != 0) && own != number("containerPort") {
                let field = format!("containers[{at}].ports[{index}].hostPort");
                let why = "must match `containerPort` when `hostNetwork` is true";
                causes.push(spec.invalid(&field, &own.into(), why));
            }
        }
    }
}

/// Checks that the names of all containers differ.
pub fn names(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let mut taken = HashSet::new();
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for (index, container) in spec.items(list).iter().enumerate() {
            let name = text_or_empty(container, "/name");
            if !name.is_empty() && !taken.insert(name) {
                causes.push(Cause::duplicate(
                    spec.field(&format!("{list}[{index}].name")),
                    name,
                ));
            }
        }
    }
}

/// Checks that ephemeral containers name containers of the pod as their targets.
pub fn targets(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let known: HashSet<_> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| spec.items(list))
        .map(|container| text_or_empty(container, "/name"))
        .collect();
    for (index, container) in spec.items("ephemeralContainers").iter().enumerate() {
        let target = text_or_empty(container, "/targetContainerName");
        if !target.is_empty() && !known.contains(target) {
            let field = format!("ephemeralContainers[{index}].targetContainerName");
            causes.push(Cause::not_found(spec.field(&field), target));
        }
    }
}
