//! Checks the containers of new pods.

use std::collections::HashSet;

use serde_json::Value;

use super::faults::{faults, in_range, required, supported};
use crate::{
    cause::Cause,
    names,
    object::{items, text_or_empty},
    quantity::Quantity,
};

const LAST_PORT: i64 = 65_535;

/// The parts of the pod to which a container refers.
pub(super) struct Scope<'a> {
    /// The names of its volumes.
    pub(super) volumes: &'a HashSet<&'a str>,
    pub(super) host_network: bool,
}

/// Checks everything but the name.
pub(super) fn container(path: &str, container: &Value, scope: &Scope<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let image = text_or_empty(container, "/image");
    if image.is_empty() {
        causes.push(Cause::required(format!("{path}.image"), ""));
    } else if image.trim() != image {
        let why = "must not have leading or trailing whitespace";
        causes.push(Cause::invalid(format!("{path}.image"), &image.into(), why));
    }
    causes.extend(supported(container, path, "imagePullPolicy", &["Always", "IfNotPresent", "Never"]));
    causes.extend(supported(container, path, "terminationMessagePolicy", &["FallbackToLogsOnError", "File"]));
    causes.extend(ports(path, container, scope.host_network));
    causes.extend(environment(path, container));
    causes.extend(mounts(path, container, scope.volumes));
    causes.extend(resources(path, container));
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(value) = container.get(probe).filter(|value| value.is_object()) {
            causes.extend(probe_handler(&format!("{path}.{probe}"), value));
        }
    }
    causes
}

fn ports(path: &str, container: &Value, host_network: bool) -> Vec<Cause> {
    let ports = items(container, "/ports");
    let (mut causes, mut taken) = (Vec::new(), HashSet::new());
    for (index, port) in ports.iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        let name = text_or_empty(port, "/name");
        if !name.is_empty() {
            causes.extend(faults(&format!("{path}.name"), name, names::port_name(name)));
            if !taken.insert(name) {
                causes.push(Cause::duplicate(format!("{path}.name"), name));
            }
        }
        let number = |key: &str| port.get(key).filter(|value| value.as_i64() != Some(0));
        match number("containerPort") {
            None => causes.push(Cause::required(format!("{path}.containerPort"), "")),
            value => causes.extend(in_range(format!("{path}.containerPort"), value, 1, LAST_PORT)),
        }
        causes.extend(in_range(format!("{path}.hostPort"), number("hostPort"), 1, LAST_PORT));
        if host_network && number("hostPort") != number("containerPort") {
            let value = number("containerPort").cloned().unwrap_or_default();
            let why = "must match `hostPort` when `hostNetwork` is true";
            causes.push(Cause::invalid(format!("{path}.containerPort"), &value, why));
        }
        causes.extend(supported(port, &path, "protocol", &["SCTP", "TCP", "UDP"]));
    }
    causes
}

fn environment(path: &str, container: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, variable) in items(container, "/env").iter().enumerate() {
        let path = format!("{path}.env[{index}]");
        match text_or_empty(variable, "/name") {
            "" => causes.push(Cause::required(format!("{path}.name"), "")),
            name => causes.extend(faults(&format!("{path}.name"), name, names::env_name(name))),
        }
        let Some(from) = variable.get("valueFrom").and_then(Value::as_object) else { continue };
        let field = format!("{path}.valueFrom");
        let refuse = |why| Cause::invalid(field.as_str(), &"".into(), why);
        match from.len() {
            0 => causes.push(refuse(
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
            )),
            1 if text_or_empty(variable, "/value").is_empty() => {}
            1 => causes.push(refuse("may not be specified when `value` is not empty")),
            _ => causes.push(refuse("may not have more than one field specified at a time")),
        }
        for (source, key) in [("configMapKeyRef", "key"), ("secretKeyRef", "key"), ("fieldRef", "fieldPath")]
        {
            if let Some(value) = from.get(source) {
                causes.extend(required(value, &format!("{field}.{source}"), key));
            }
        }
    }
    causes
}

fn mounts(path: &str, container: &Value, volumes: &HashSet<&str>) -> Vec<Cause> {
    let mounts = items(container, "/volumeMounts");
    let (mut causes, mut taken) = (Vec::new(), HashSet::new());
    for (index, mount) in mounts.iter().enumerate() {
        let path = format!("{path}.volumeMounts[{index}]");
        let (name, at) = (text_or_empty(mount, "/name"), text_or_empty(mount, "/mountPath"));
        if name.is_empty() {
            causes.push(Cause::required(format!("{path}.name"), ""));
        } else if !volumes.contains(&name) {
            causes.push(Cause::not_found(format!("{path}.name"), name));
        }
        if at.is_empty() {
            causes.push(Cause::required(format!("{path}.mountPath"), ""));
        } else if !taken.insert(at) {
            causes.push(Cause::invalid(format!("{path}.mountPath"), &at.into(), "must be unique"));
        }
        let inside = text_or_empty(mount, "/subPath");
        if inside.starts_with('/') {
            causes.push(Cause::invalid(format!("{path}.subPath"), &inside.into(), "must be a relative path"));
        } else if inside.split('/').any(|part| part == "..") {
            causes.push(Cause::invalid(format!("{path}.subPath"), &inside.into(), "must not contain '..'"));
        }
    }
    causes
}

fn resources(path: &str, container: &Value) -> Vec<Cause> {
    let amounts = |field: &str| container.pointer(&format!("/resources/{field}")).and_then(Value::as_object);
    let parsed = |value: &Value| value.as_str().and_then(Quantity::parse);
    let mut causes = Vec::new();
    for field in ["limits", "requests"] {
        for (name, value) in amounts(field).into_iter().flatten() {
            if parsed(value).is_some_and(Quantity::is_negative) {
                let why = "must be greater than or equal to 0";
                causes.push(Cause::invalid(format!("{path}.resources.{field}[{name}]"), value, why));
            }
        }
    }
    for (name, request) in amounts("requests").into_iter().flatten() {
        let Some(limit) = amounts("limits").and_then(|limits| limits.get(name)) else { continue };
        if parsed(request) > parsed(limit) {
            let why = format!(
                "must be less than or equal to {name} limit of {}",
                limit.as_str().unwrap_or_default()
            );
            causes.push(Cause::invalid(format!("{path}.resources.requests"), request, &why));
        }
    }
    causes
}

fn probe_handler(path: &str, probe: &Value) -> Vec<Cause> {
    const HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];
    let mut found = HANDLERS.iter().filter(|handler| probe.get(**handler).is_some_and(Value::is_object));
    let mut causes = Vec::new();
    if found.next().is_none() {
        causes.push(Cause::required(path, "must specify a handler type"));
    }
    let why = "may not specify more than 1 handler type";
    causes.extend(found.map(|handler| Cause::forbidden(format!("{path}.{handler}"), why)));
    for key in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        causes.extend(in_range(format!("{path}.{key}"), probe.get(key), 0, i64::MAX));
    }
    causes
}
