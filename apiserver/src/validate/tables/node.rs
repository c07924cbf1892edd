//! Nodes.

use std::collections::HashSet;

use serde_json::{Value, json};

use kubeapi::{
    cause::Cause,
    object::{items, names, text_or_empty},
    validate::{
        change::{Change, Kept, change},
        engine::{
            Row,
            Rule::{Check, Choice, Name, Table},
            row,
        },
        formats,
        place::Place,
        repeats::repeats,
    },
};

use kubeapi::validate::tables::resources;

// Kubernetes' messages place the taints and ranges so.
pub(super) static NODE: &[Row] = &[
    row("spec>metadata.taints[*]", Table(TAINT)),
    row("spec>metadata.taints", Check(check_repeated)),
    row("", Table(STATUS)),
    row("spec.podCIDRs", Check(ranges)),
];

/// The `status` of a node.
pub(super) static STATUS: &[Row] = &[
    row("status.capacity{*}", Check(amount)),
    row("status.allocatable{*}", Check(amount)),
    row("status.addresses", Check(addresses)),
];

/// What of a node may not change.
pub(super) static CHANGES: &[Change] = &[
    change("spec", Kept::Check(ranges_stay)),
    change(
        "spec.providerID",
        Kept::OnceSet("node updates may not change providerID except from \"\" to valid"),
    ),
];

static TAINT: &[Row] = &[
    row("key", Name(names::qualified_name)),
    row("value", Check(value)),
    row(
        "effect",
        Choice(&["NoSchedule", "PreferNoSchedule", "NoExecute"]),
    ),
];

fn value(value: &Place<'_>, causes: &mut Vec<Cause>) {
    let faults = names::label_value(value.value.as_str().unwrap_or_default());
    causes.extend((!faults.is_empty()).then(|| value.refusal(&faults.join(";"))));
}

fn check_repeated(taints: &Place<'_>, causes: &mut Vec<Cause>) {
    let mut taken = HashSet::new();
    for (index, taint) in taints.list().iter().enumerate() {
        let place = taints.item(index, taint);
        if !taken.insert((place.text("key"), place.text("effect"))) {
            let mut cause = Cause::duplicate_value(place.path(), taint);
            cause
                .message
                .push_str(": taints must be unique by key and effect pair");
            causes.push(cause);
        }
    }
}

fn amount(amount: &Place<'_>, causes: &mut Vec<Cause>) {
    if resources::name(amount, amount.key(), causes) {
        resources::quantity(amount, amount.key(), causes);
    }
}

fn addresses(addresses: &Place<'_>, causes: &mut Vec<Cause>) {
    for (index, address) in repeats(addresses.list()) {
        causes.push(Cause::duplicate_value(
            addresses.item(index, address).path(),
            address,
        ));
    }
}

fn ranges(ranges: &Place<'_>, causes: &mut Vec<Cause>) {
    let list = ranges.list();
    for (index, range) in list.iter().enumerate() {
        let place = ranges.item(index, range);
        causes.extend(
            formats::cidr(range.as_str().unwrap_or_default())
                .iter()
                .map(|why| place.refusal(why)),
        );
    }
    let family = |range: &Value| Some(formats::parse_cidr(range.as_str()?)?.0.is_ipv4());
    match list {
        [] | [_] => {}
        [first, second] if family(first) != family(second) => {}
        _ => {
            let why = "may specify no more than one CIDR for each IP family";
            causes.push(ranges.refusal(why));
        }
    }
    for (index, range) in repeats(list) {
        causes.push(Cause::duplicate_value(
            ranges.item(index, range).path(),
            range,
        ));
    }
}

fn ranges_stay(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let of = |spec: &Value| match items(spec, "/podCIDRs") {
        [] if text_or_empty(spec, "/podCIDR").is_empty() => Vec::new(),
        [] => vec![json!(text_or_empty(spec, "/podCIDR"))],
        list => list.to_vec(),
    };
    let before = of(old);
    if !before.is_empty() && before != of(new) {
        causes.push(Cause::forbidden(
            "spec.podCIDRs",
            "node updates may not change podCIDR except from \"\" to valid",
        ));
    }
}
