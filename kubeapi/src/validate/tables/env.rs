//! Environment variables, and the fields and resources that variables and files are made of.

use crate::{
    cause::Cause,
    object::{names, quantity::canonical},
    validate::{
        engine::{
            Row,
            Rule::{Check, Choice, Format, Name},
            row,
        },
        place::Place,
    },
};

/// `env[*]`.
pub static VARIABLE: &[Row] = &[
    row("name", Name(names::env_name)),
    row("valueFrom?.fieldRef?", Check(variable_field)),
    row("valueFrom?.resourceFieldRef?", Check(variable_resource)),
    row("valueFrom?.configMapKeyRef?", Check(key_reference)),
    row("valueFrom?.secretKeyRef?", Check(key_reference)),
    row("valueFrom?", Check(one_source)),
];

/// `envFrom[*]`; a variable's sources are counted by [`sources`].
pub static FROM: &[Row] = &[
    row("prefix", Format(names::env_name)),
    row("configMapRef?.name", Name(names::dns_subdomain)),
    row("secretRef?.name", Name(names::dns_subdomain)),
];

/// A file of a downward API volume, without its index.
pub static FILE: &[Row] = &[
    row("path", crate::validate::engine::Rule::Required("")),
    row("path", Format(crate::validate::formats::file_path)),
    row("fieldRef?", Check(file_field)),
    row("resourceFieldRef?", Check(file_resource)),
    row("", Check(one_of_file)),
    row("mode", super::files::MODE),
];

const VARIABLE_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const FILE_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const BYTES: &[&str] = &[
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
];

/// Checks that an item of `envFrom` has one source; Kubernetes' message is about the list.
pub fn sources(place: &Place<'_>, causes: &mut Vec<Cause>) {
    for item in place.list() {
        let count = ["configMapRef", "secretRef"]
            .iter()
            .filter(|name| item.get(**name).is_some_and(|source| !source.is_null()));
        let why = match count.count() {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        causes.push(Cause::invalid(place.path(), &"".into(), why));
    }
}

fn one_source(place: &Place<'_>, causes: &mut Vec<Cause>) {
    let sources = [
        "fieldRef",
        "resourceFieldRef",
        "configMapKeyRef",
        "secretKeyRef",
        "fileKeyRef",
    ];
    let count = sources.iter().filter(|name| place.has(name)).count();
    let has_value = place
        .sibling("value")
        .as_str()
        .is_some_and(|value| !value.is_empty());
    let why = match count {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        }
        _ if has_value => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    causes.push(Cause::invalid(place.path(), &"".into(), why));
}

fn key_reference(place: &Place<'_>, causes: &mut Vec<Cause>) {
    let (name, key) = (place.text("name"), place.text("key"));
    causes.extend(
        names::dns_subdomain(name)
            .iter()
            .map(|why| place.invalid("name", &name.into(), why)),
    );
    match key {
        "" => causes.push(Cause::required(place.field("key"), "")),
        key => causes.extend(
            names::config_key(key)
                .iter()
                .map(|why| place.invalid("key", &key.into(), why)),
        ),
    }
}

fn variable_field(place: &Place<'_>, causes: &mut Vec<Cause>) {
    field(place, VARIABLE_FIELDS, causes);
}

fn file_field(place: &Place<'_>, causes: &mut Vec<Cause>) {
    field(place, FILE_FIELDS, causes);
}

/// Checks a reference to a field of the pod.
fn field(place: &Place<'_>, known: &[&str], causes: &mut Vec<Cause>) {
    let path = place.text("fieldPath");
    for name in ["apiVersion", "fieldPath"] {
        if place.text(name).is_empty() {
            return causes.push(Cause::required(place.field(name), ""));
        }
    }
    if place.text("apiVersion") != "v1" || !is_label(path) {
        let version = place.text("apiVersion");
        let why = if version == "v1" {
            format!("error converting fieldPath: field label not supported: {path}")
        } else {
            format!("error converting fieldPath: unsupported pod version: {version}")
        };
        return causes.push(place.invalid("fieldPath", &path.into(), &why));
    }
    match path
        .strip_suffix("']")
        .and_then(|path| path.split_once("['"))
    {
        Some(("metadata.annotations", key)) => {
            let faults = names::qualified_name(&key.to_lowercase());
            causes.extend(
                faults
                    .iter()
                    .map(|why| Cause::invalid(place.path(), &key.to_lowercase().into(), why)),
            );
        }
        Some(("metadata.labels", key)) => {
            let faults = names::qualified_name(key);
            causes.extend(
                faults
                    .iter()
                    .map(|why| Cause::invalid(place.path(), &key.into(), why)),
            );
        }
        Some((path, _)) => causes.push(Cause::invalid(
            place.path(),
            &path.into(),
            "does not support subscript",
        )),
        None if !known.contains(&path) => {
            causes.push(Cause::unsupported(
                place.field("fieldPath"),
                &path.into(),
                known,
            ));
        }
        None => {}
    }
}

/// Whether pods can be described by this field.
fn is_label(path: &str) -> bool {
    let name = path.split("['").next().unwrap_or(path);
    let is_subscript = name != path;
    let known = [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
    ];
    let others = [
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.schedulerName",
        "spec.hostNetwork",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
        "spec.host",
    ];
    known.contains(&name) || !is_subscript && others.contains(&name)
}

fn variable_resource(place: &Place<'_>, causes: &mut Vec<Cause>) {
    resource(place, false, causes);
}

fn file_resource(place: &Place<'_>, causes: &mut Vec<Cause>) {
    if !place.sibling("fieldRef").is_null() {
        return;
    }
    resource(place, true, causes);
}

/// Checks a reference to a resource of a container.
fn resource(place: &Place<'_>, is_file: bool, causes: &mut Vec<Cause>) {
    let name = place.text("resource");
    let is_huge = ["limits.hugepages-", "requests.hugepages-"]
        .iter()
        .any(|prefix| name.starts_with(prefix));
    if is_file && place.text("containerName").is_empty() {
        causes.push(Cause::required(place.field("containerName"), ""));
    } else if name.is_empty() {
        causes.push(Cause::required(place.field("resource"), ""));
    } else if !RESOURCES.contains(&name) && !is_huge {
        causes.push(Cause::unsupported(
            place.field("resource"),
            &name.into(),
            RESOURCES,
        ));
    }
    let divisor = canonical(place.text("divisor")).unwrap_or_default();
    if divisor.is_empty() || divisor == "0" {
        return;
    }
    let why = match name {
        "limits.cpu" | "requests.cpu" if !matches!(divisor.as_str(), "1m" | "1") => {
            "only divisor's values 1m and 1 are supported with the cpu resource".to_owned()
        }
        _ if name.ends_with(".cpu") || BYTES.contains(&divisor.as_str()) => return,
        _ => {
            let what = match name.split_once('.').map(|(_, what)| what) {
                Some("memory") => "memory",
                Some("ephemeral-storage") => "local ephemeral storage",
                _ if is_huge => "hugepages",
                _ => return,
            };
            format!(
                "only divisor's values {} are supported with the {what} resource",
                BYTES.join(", ")
            )
        }
    };
    causes.push(place.invalid("divisor", &name.into(), &why));
}

fn one_of_file(place: &Place<'_>, causes: &mut Vec<Cause>) {
    match (place.has("fieldRef"), place.has("resourceFieldRef")) {
        (true, true) => {
            let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
            causes.push(Cause::invalid(place.path(), &"resource".into(), why));
        }
        (false, false) => {
            causes.push(Cause::required(
                place.path(),
                "one of fieldRef and resourceFieldRef is required",
            ));
        }
        _ => {}
    }
}

/// The protocols of ports.
pub const PROTOCOL: crate::validate::engine::Rule = Choice(&["SCTP", "TCP", "UDP"]);
