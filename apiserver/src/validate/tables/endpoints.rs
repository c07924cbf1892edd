//! Endpoints and endpoint slices, except for their addresses.

use kubeapi::{
    cause::Cause,
    object::names,
    validate::{
        change::{Change, Kept, change},
        engine::{
            Row,
            Rule::{
                Between, Check, Choice, Format, FormatIfSet, Labels, MaxItems, Table, Unique,
                Within,
            },
            row,
        },
        numbers::LAST_PORT,
        place::Place,
    },
};

use kubeapi::validate::tables::env::PROTOCOL;

/// The most endpoints of a slice.
const MAX_ENDPOINTS: usize = 1000;
/// The most addresses of one endpoint.
const MAX_ADDRESSES: usize = 100;
/// The most ports of a slice.
const MAX_PORTS: usize = 20_000;

pub(super) static ENDPOINTS: &[Row] = &[row("subsets[*]", Table(SUBSET))];

static SUBSET: &[Row] = &[
    row("", Check(has_addresses)),
    row("addresses[*]", Table(ADDRESS)),
    row("notReadyAddresses[*]", Table(ADDRESS)),
    row("ports", Check(check_names)),
    row("ports[*]", Table(PORT)),
];
static ADDRESS: &[Row] = &[
    row("hostname", Format(names::dns_label)),
    row("nodeName", FormatIfSet(names::dns_subdomain)),
];
static PORT: &[Row] = &[
    row("name", Format(names::dns_label)),
    row("port", Within(1, LAST_PORT)),
    row("protocol", PROTOCOL),
    row("appProtocol", FormatIfSet(names::qualified_name)),
];

pub(super) static SLICE: &[Row] = &[
    row("addressType", Choice(&["FQDN", "IPv4", "IPv6"])),
    row("endpoints", MaxItems(MAX_ENDPOINTS)),
    row("endpoints[*]", Table(ENDPOINT)),
    row("ports", MaxItems(MAX_PORTS)),
    row("ports[*]", Table(SLICE_PORT)),
    row("ports", Check(unique_names)),
];
static ENDPOINT: &[Row] = &[
    row(
        "addresses",
        kubeapi::validate::engine::Rule::Required("must contain at least 1 address"),
    ),
    row("addresses", MaxItems(MAX_ADDRESSES)),
    row("nodeName", FormatIfSet(names::dns_subdomain)),
    row("deprecatedTopology", Check(few_labels)),
    row("deprecatedTopology", Labels),
    row("hostname", FormatIfSet(names::dns_label)),
    row("hints?.forZones", MaxItems(8)),
    row("hints?.forZones[*].name", FormatIfSet(names::label_value)),
    row("hints?.forZones", Unique("name")),
    row("hints?.forNodes", MaxItems(8)),
    row("hints?.forNodes", Unique("name")),
];
static SLICE_PORT: &[Row] = &[
    row("name", Format(names::dns_label)),
    row("port", Between(1, LAST_PORT)),
    row("protocol", PROTOCOL),
    row("appProtocol", FormatIfSet(names::qualified_name)),
];

pub(super) static SLICE_CHANGES: &[Change] = &[change("addressType", Kept::Same)];

fn has_addresses(subset: &Place<'_>, causes: &mut Vec<Cause>) {
    if subset.items("addresses").is_empty() && subset.items("notReadyAddresses").is_empty() {
        causes.push(Cause::required(
            subset.path(),
            "must specify `addresses` or `notReadyAddresses`",
        ));
    }
}

fn check_names(ports: &Place<'_>, causes: &mut Vec<Cause>) {
    if ports.list().len() < 2 {
        return;
    }
    for (index, port) in ports.list().iter().enumerate() {
        let port = ports.item(index, port);
        if port.text("name").is_empty() {
            causes.push(Cause::required(port.field("name"), ""));
        }
    }
}

/// Checks that no two ports of a slice have the same name; the empty name is one, too.
fn unique_names(ports: &Place<'_>, causes: &mut Vec<Cause>) {
    let mut taken = std::collections::HashSet::new();
    for (index, port) in ports.list().iter().enumerate() {
        let port = ports.item(index, port);
        if !taken.insert(port.text("name")) {
            causes.push(Cause::duplicate(port.field("name"), port.text("name")));
        }
    }
}

fn few_labels(labels: &Place<'_>, causes: &mut Vec<Cause>) {
    const MOST: usize = 16;
    let count = labels.entries().count();
    if count > MOST {
        causes.push(Cause::too_many(labels.path(), count as u64, MOST as u64));
    }
}
