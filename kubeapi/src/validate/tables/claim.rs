//! Claims of persistent volumes.

use serde_json::{Value, json};

use crate::{
    cause::Cause,
    object::{names, quantity::Quantity},
    validate::{
        change::{Change, Kept, change},
        engine::{
            Row,
            Rule::{Check, Format, OneOf, Required, Selector, Table},
            row,
        },
        place::Place,
    },
};

const MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

/// A claim.
pub static CLAIM: &[Row] = &[row("spec", Table(SPEC))];

/// The `spec` of a claim.
pub static SPEC: &[Row] = &[
    row(
        "accessModes",
        Required("at least 1 access mode is required"),
    ),
    row("selector?", Selector),
    row("accessModes", Check(access_modes)),
    row("", Check(storage)),
    row("storageClassName", Format(names::dns_subdomain)),
    row("volumeMode", OneOf(&["Block", "Filesystem"])),
    row("dataSource?", Check(data_source)),
    row("dataSourceRef?", Check(data_source)),
    row("dataSourceRef?.namespace", Format(names::dns_label)),
    row("", Check(same_source)),
    row("volumeAttributesClassName", Format(names::dns_subdomain)),
];

/// Fields of a claim that cannot change.
pub static CHANGES: &[Change] = &[
    change("", Kept::Check(spec_stays)),
    change("spec.volumeMode", Kept::Renamed("volumeMode")),
];

/// Checks the access modes of a claim or a volume.
pub fn access_modes(modes: &Place<'_>, causes: &mut Vec<Cause>) {
    let is_known = |mode: &Value| mode.as_str().is_some_and(|mode| MODES.contains(&mode));
    let unknown = modes.list().iter().filter(|mode| !is_known(mode));
    causes.extend(unknown.map(|mode| Cause::unsupported(modes.path(), mode, MODES)));
    let single = modes.list().iter().any(|mode| mode == "ReadWriteOncePod");
    let other = modes
        .list()
        .iter()
        .any(|mode| is_known(mode) && mode != "ReadWriteOncePod");
    if single && other {
        causes.push(Cause::forbidden(
            modes.path(),
            "may not use ReadWriteOncePod with other access modes",
        ));
    }
}

fn storage(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let field = spec.field("resources[storage]");
    let Some(text) = spec.pointer("/resources/requests/storage").as_str() else {
        return causes.push(Cause::required(field, ""));
    };
    if Quantity::parse(text).is_some_and(|amount| !amount.is_positive()) {
        causes.push(Cause::invalid(
            field,
            &text.into(),
            "must be greater than zero",
        ));
    }
}

fn data_source(source: &Place<'_>, causes: &mut Vec<Cause>) {
    let (group, kind) = (source.text("apiGroup"), source.text("kind"));
    for name in ["name", "kind"] {
        if source.text(name).is_empty() {
            causes.push(Cause::required(source.field(name), ""));
        }
    }
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        causes.push(Cause::invalid(source.path(), &kind.into(), why));
    }
    if !group.is_empty() {
        causes.extend(
            names::dns_subdomain(group)
                .iter()
                .map(|why| source.invalid("apiGroup", &group.into(), why)),
        );
    }
}

fn same_source(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let (source, reference) = (
        spec.get("dataSource"),
        spec.child("dataSourceRef", "dataSourceRef"),
    );
    if source.is_null() || reference.value.is_null() {
        return;
    }
    let of = |value: &Value| {
        ["apiGroup", "kind", "name"].map(|name| value.get(name).cloned().unwrap_or_default())
    };
    let why = if !reference.text("namespace").is_empty() {
        "may not be specified when dataSourceRef.namespace is specified"
    } else if of(source) != of(reference.value) {
        "must match dataSourceRef"
    } else {
        return;
    };
    causes.push(Cause::invalid(
        spec.path(),
        &spec.field("dataSource").into(),
        why,
    ));
}

/// Checks that a claim only grows, and only once it is bound.
fn spec_stays(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let none = json!({});
    let spec = |claim: &Value| claim.get("spec").unwrap_or(&none).clone();
    let (mut before, mut after) = (spec(old), spec(new));
    let amount = |spec: &Value| {
        spec.pointer("/resources/requests/storage")
            .cloned()
            .unwrap_or_default()
    };
    let parsed = |value: &Value| value.as_str().and_then(Quantity::parse);
    let (old_size, new_size) = (amount(&before), amount(&after));
    let is_bound = new
        .pointer("/status/phase")
        .is_some_and(|phase| phase == "Bound");
    for field in ["volumeName", "storageClassName"] {
        // the controller and an administrator may set what is missing
        if before
            .get(field)
            .is_none_or(|value| value.is_null() || value == "")
        {
            assign(&mut before, field, after.get(field).cloned());
        }
    }
    if is_bound {
        assign(&mut before, "volumeAttributesClassName", None);
        assign(&mut after, "volumeAttributesClassName", None);
        if let Some(requests) = after.pointer_mut("/resources/requests") {
            requests["storage"] = old_size.clone();
        }
    }
    if !crate::validate::change::same(&before, &after) {
        let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        causes.push(Cause::forbidden("spec", why));
    }
    let capacity = old
        .pointer("/status/capacity/storage")
        .and_then(parsed)
        .unwrap_or(Quantity::ZERO);
    if parsed(&new_size) < parsed(&old_size) && parsed(&new_size) <= Some(capacity) {
        let why = "field can not be less than status.capacity";
        causes.push(Cause::forbidden("spec.resources.requests.storage", why));
    }
}

fn assign(spec: &mut Value, field: &str, value: Option<Value>) {
    if let Value::Object(spec) = spec {
        crate::object::assign(spec, field, value);
    }
}
