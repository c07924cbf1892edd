//! Storage classes, attachments of volumes, CSI drivers, nodes and capacities.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use kubeapi::{
    cause::Cause,
    object::{items, names, text_or_empty},
    validate::{
        change::{Change, Kept, change, same},
        engine::{
            Row,
            Rule::{
                Always, AtLeast, Check, Choice, MaxBytes, Name, NonNegative, OneOf, Present,
                Quantity, Required, Selector, Table, Unique,
            },
            row,
        },
        formats,
        place::Place,
        repeats::{canonical, repeats, repeats_by},
    },
};

use super::persistent_volume;

pub(super) static CLASS: &[Row] = &[
    row("provisioner", Name(formats::provisioner)),
    row("parameters", Check(parameters)),
    row("reclaimPolicy", OneOf(&["Delete", "Retain"])),
    row(
        "volumeBindingMode",
        Choice(&["Immediate", "WaitForFirstConsumer"]),
    ),
    row(
        "allowedTopologies[*].matchLabelExpressions[*]",
        Table(TOPOLOGY),
    ),
    row("allowedTopologies[*].matchLabelExpressions", Unique("key")),
    row("allowedTopologies", Check(repeated_topologies)),
];
static TOPOLOGY: &[Row] = &[
    row("values", Required("")),
    row("values", Unique("")),
    row("key", Always(names::qualified_name)),
];

pub(super) static ATTRIBUTES_CLASS: &[Row] = &[
    row("driverName", Name(formats::provisioner)),
    row("parameters", Check(parameters)),
    row(
        "parameters",
        Required("must contain at least one key/value pair"),
    ),
];

pub(super) static ATTACHMENT: &[Row] = &[
    row("spec.attacher", Name(formats::driver)),
    row("spec.attacher", MaxBytes(63)),
    row("spec.source", Check(check_attached)),
    row(
        "spec.source.inlineVolumeSpec?",
        Table(persistent_volume::INLINE),
    ),
    row("spec.source.persistentVolumeName?", Check(volume_name)),
    row("spec.nodeName", Always(names::dns_subdomain)),
];

pub(super) static DRIVER: &[Row] = &[
    row("spec.attachRequired>attachedRequired", Present("")),
    row("spec.podInfoOnMount", Present("")),
    row("spec.storageCapacity", Present("")),
    row(
        "spec.fsGroupPolicy",
        OneOf(&["File", "None", "ReadWriteOnceWithFSType"]),
    ),
    row("spec.tokenRequests", Check(token_requests)),
    row(
        "spec.volumeLifecycleModes[-]",
        OneOf(&["Persistent", "Ephemeral"]),
    ),
    row(
        "spec.nodeAllocatableUpdatePeriodSeconds",
        AtLeast(10, "must be greater than or equal to 10 seconds"),
    ),
];

pub(super) static NODE: &[Row] = &[
    row("spec.drivers[*]", Table(NODE_DRIVER)),
    row("spec.drivers", Unique("name")),
];
static NODE_DRIVER: &[Row] = &[
    row("name", Name(formats::driver)),
    row("name", MaxBytes(63)),
    row("nodeID", Required("")),
    row("nodeID", Check(node_id)),
    row("allocatable?.count", NonNegative),
    row("topologyKeys[-]", Name(names::qualified_name)),
    row("topologyKeys", Check(repeated_keys)),
];

pub(super) static CAPACITY: &[Row] = &[
    row("nodeTopology?", Selector),
    row("storageClassName", Always(names::dns_subdomain)),
    row("capacity", Quantity),
];

pub(super) static CLASS_CHANGES: &[Change] = &[
    change(
        "parameters",
        Kept::Locked("updates to parameters are forbidden."),
    ),
    change(
        "provisioner",
        Kept::Locked("updates to provisioner are forbidden."),
    ),
    change(
        "reclaimPolicy",
        Kept::Locked("updates to reclaimPolicy are forbidden."),
    ),
    change("volumeBindingMode", Kept::Same),
];
pub(super) static ATTRIBUTES_CLASS_CHANGES: &[Change] = &[
    change(
        "driverName",
        Kept::Locked("updates to driverName are forbidden."),
    ),
    change(
        "parameters",
        Kept::Locked("updates to parameters are forbidden."),
    ),
];
pub(super) static ATTACHMENT_CHANGES: &[Change] = &[change("spec", Kept::Same)];
pub(super) static DRIVER_CHANGES: &[Change] = &[
    change(
        "spec.attachRequired",
        Kept::Renamed("spec.attachedRequired"),
    ),
    change("spec.volumeLifecycleModes", Kept::Same),
];
pub(super) static NODE_CHANGES: &[Change] = &[change("spec.drivers", Kept::Check(drivers_stay))];
pub(super) static CAPACITY_CHANGES: &[Change] = &[
    change("nodeTopology", Kept::Same),
    change("storageClassName", Kept::Same),
];

fn parameters(parameters: &Place<'_>, causes: &mut Vec<Cause>) {
    const MOST: usize = 512;
    const BYTES: usize = 256 * 1024;
    if parameters.entries().count() > MOST {
        return causes.push(Cause::too_long(parameters.path(), MOST));
    }
    let bytes: usize = parameters
        .entries()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if parameters.entries().any(|(key, _)| key.is_empty()) {
        causes.push(Cause::invalid(
            parameters.path(),
            &"".into(),
            "field can not be empty.",
        ));
    }
    if bytes > BYTES {
        causes.push(Cause::too_long(parameters.path(), BYTES));
    }
}

fn repeated_topologies(list: &Place<'_>, causes: &mut Vec<Cause>) {
    for (index, term) in repeats_by(list.list(), canonical) {
        let field = list.item(index, term).field("matchLabelExpressions");
        causes.push(Cause::duplicate(field, ""));
    }
}

fn check_attached(source: &Place<'_>, causes: &mut Vec<Cause>) {
    let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (
        source.has("inlineVolumeSpec"),
        source.has("persistentVolumeName"),
    ) {
        (false, false) => causes.push(Cause::required(source.path(), why)),
        (true, true) => causes.push(Cause::forbidden(source.path(), why)),
        _ => {}
    }
}

fn volume_name(name: &Place<'_>, causes: &mut Vec<Cause>) {
    let text = name.value.as_str().unwrap_or_default();
    if text.is_empty() {
        return causes.push(Cause::required(
            name.path(),
            "must specify non empty persistentVolumeName",
        ));
    }
    causes.extend(
        names::dns_subdomain(text)
            .iter()
            .map(|why| name.refusal(why)),
    );
}

fn token_requests(list: &Place<'_>, causes: &mut Vec<Cause>) {
    let mut taken = HashSet::new();
    for (index, request) in list.list().iter().enumerate() {
        let request = list.item(index, request);
        let audience = request.text("audience");
        if !taken.insert(audience) {
            causes.push(Cause::duplicate(request.field("audience"), audience));
            continue;
        }
        let Some(seconds) = request.number("expirationSeconds") else {
            continue;
        };
        let why = match seconds {
            seconds if seconds < 600 => "may not specify a duration less than 10 minutes",
            seconds if seconds > 1 << 32 => "may not specify a duration larger than 2^32 seconds",
            _ => continue,
        };
        causes.push(request.invalid("expirationSeconds", &seconds.into(), why));
    }
}

fn node_id(id: &Place<'_>, causes: &mut Vec<Cause>) {
    const LONGEST: usize = 256;
    if id.value.as_str().is_some_and(|id| id.len() > LONGEST) {
        causes.push(id.refusal(&format!("must be {LONGEST} characters or less")));
    }
}

fn repeated_keys(keys: &Place<'_>, causes: &mut Vec<Cause>) {
    causes.extend(repeats(keys.list()).map(|(_, key)| Cause::duplicate_value(keys.path(), key)));
}

fn drivers_stay(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let fixed = |driver: &Value| {
        let mut driver = driver.as_object().cloned().unwrap_or_default();
        driver.shift_remove("allocatable");
        Value::Object(driver)
    };
    let known: HashMap<_, _> = items(old, "")
        .iter()
        .rev()
        .map(|driver| (text_or_empty(driver, "/name"), driver))
        .collect();
    for driver in items(new, "") {
        let before = known.get(text_or_empty(driver, "/name"));
        if before.is_some_and(|before| !same(&fixed(before), &fixed(driver))) {
            causes.push(Cause::invalid("spec.drivers", driver, "field is immutable"));
        }
    }
}
