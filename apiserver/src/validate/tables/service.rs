//! Services.

use std::collections::HashSet;

use serde_json::{Value, json};

use kubeapi::{
    cause::Cause,
    object::{names, text_or_empty},
    validate::{
        addresses,
        change::{Change, Kept, change},
        engine::{
            Row,
            Rule::{
                Check, Choice, Format, FormatIfSet, Labels, MaxItems, OneOf, Port, Supported,
                Table, Unique, Within,
            },
            row,
        },
        formats,
        numbers::{LAST_PORT, range},
        place::Place,
    },
};

use kubeapi::validate::tables::env::PROTOCOL;

/// The most ports of a service.
const MAX_PORTS: usize = 1024;
const OF_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

pub(super) static SERVICE: &[Row] = &[
    row("spec", Check(has_ports)),
    row("spec", Check(of_type)),
    row("spec.ports", MaxItems(MAX_PORTS)),
    row("spec.ports", Check(check_names)),
    row("spec.ports[*]", Table(PORT)),
    row("spec.ports", Unique("name")),
    row("spec.selector", Labels),
    row("spec.sessionAffinity", Choice(&["ClientIP", "None"])),
    row("spec", Check(session)),
    row("spec", Check(families)),
    row("spec.clusterIPs", Check(cluster_addresses)),
    row(
        "spec.type",
        Choice(&["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]),
    ),
    row("spec", Check(node_ports)),
    row("spec.ports", Check(check_repeated)),
    row("spec", Check(source_ranges)),
    row("spec", Check(balancer)),
    row("spec", Check(traffic)),
    row("spec.internalTrafficPolicy", OneOf(&["Cluster", "Local"])),
    row(
        "spec.trafficDistribution",
        OneOf(&["PreferClose", "PreferSameNode", "PreferSameZone"]),
    ),
];

static PORT: &[Row] = &[
    row("name", Format(names::dns_label)),
    row("port", Within(1, LAST_PORT)),
    row("protocol", PROTOCOL),
    row("targetPort", Port),
    row("appProtocol", FormatIfSet(names::qualified_name)),
];

static POLICIES: &[Row] = &[row(
    "externalTrafficPolicy",
    Supported(&["Cluster", "Local"]),
)];

/// What of a service may not change.
pub(super) static CHANGES: &[Change] = &[
    change("spec", Kept::Check(addresses_stay)),
    change("spec", Kept::Check(families_stay)),
    change("spec", Kept::Check(class_stays)),
    change("spec", Kept::Check(health_port_stays)),
];

fn is_headless(spec: &Value) -> bool {
    let addresses = kubeapi::object::items(spec, "/clusterIPs");
    match addresses {
        [only] => only == "None",
        [] => text_or_empty(spec, "/clusterIP") == "None",
        _ => false,
    }
}

fn has_ports(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    if spec.items("ports").is_empty()
        && !is_headless(spec.value)
        && spec.text("type") != "ExternalName"
    {
        causes.push(Cause::required(spec.field("ports"), ""));
    }
}

fn of_type(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    match spec.text("type") {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(spec.value) => {
            let why = format!("may not be set to 'None' for {kind} services");
            causes.push(spec.invalid("clusterIPs[0]", &"None".into(), &why));
        }
        "ExternalName" => {
            for (field, is_set) in [
                ("clusterIPs", !spec.items("clusterIPs").is_empty()),
                ("ipFamilies", !spec.items("ipFamilies").is_empty()),
                ("ipFamilyPolicy", spec.has("ipFamilyPolicy")),
            ] {
                let cause = || {
                    Cause::forbidden(
                        spec.field(field),
                        "may not be set for ExternalName services",
                    )
                };
                causes.extend(is_set.then(cause));
            }
            let name = spec.text("externalName");
            match name.strip_suffix('.').unwrap_or(name) {
                "" => causes.push(Cause::required(spec.field("externalName"), "")),
                name => {
                    let faults = names::dns_subdomain(name);
                    causes.extend(
                        faults
                            .iter()
                            .map(|why| spec.invalid("externalName", &name.into(), why)),
                    );
                }
            }
        }
        _ => {}
    }
}

fn check_names(ports: &Place<'_>, causes: &mut Vec<Cause>) {
    if ports.list().len() < 2 {
        return;
    }
    for (index, port) in ports.list().iter().enumerate() {
        if text_or_empty(port, "/name").is_empty() {
            causes.push(Cause::required(ports.item(index, port).field("name"), ""));
        }
    }
}

/// Defaults have decided whether there is a configuration (`defaults/network.rs`).
fn session(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    const LONGEST: i64 = 86_400;
    let config = spec.child("sessionAffinityConfig", "sessionAffinityConfig");
    let timeout = config.pointer("/clientIP/timeoutSeconds");
    let is_valid = |seconds| (1..=LONGEST).contains(&seconds);
    if spec.text("sessionAffinity") == "ClientIP" && !timeout.as_i64().is_some_and(is_valid) {
        let why = format!("must be greater than 0 and less than {LONGEST}");
        causes.push(config.invalid("clientIP.timeoutSeconds", timeout, &why));
    }
}

fn families(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    if spec.text("type") == "ExternalName" {
        return;
    }
    let (address, all) = (spec.text("clusterIP"), spec.items("clusterIPs"));
    let addresses = spec.child("clusterIPs", "clusterIPs");
    if address.is_empty() && !all.is_empty() {
        causes.push(addresses.refusal("must be empty when `clusterIP` is not specified"));
    } else if all.first().is_some_and(|first| first != address) {
        causes.push(addresses.refusal("first value must match `clusterIP`"));
    }
    let list = spec.child("ipFamilies", "ipFamilies");
    let mut families = HashSet::new();
    for (index, family) in list.list().iter().enumerate() {
        let item = list.item(index, family);
        if !matches!(family.as_str(), Some("IPv4" | "IPv6")) {
            causes.push(Cause::unsupported(item.path(), family, &["IPv4", "IPv6"]));
        }
        if !families.insert(family) {
            causes.push(Cause::duplicate_value(item.path(), family));
        }
    }
    const KNOWN: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];
    let policy = spec.text("ipFamilyPolicy");
    if spec.has("ipFamilyPolicy") && !KNOWN.contains(&policy) {
        causes.push(Cause::unsupported(
            spec.field("ipFamilyPolicy"),
            &policy.into(),
            KNOWN,
        ));
    }
}

fn cluster_addresses(list: &Place<'_>, causes: &mut Vec<Cause>) {
    if list.sibling("type") == "ExternalName" {
        return;
    }
    let before = causes.len();
    for (index, address) in list.list().iter().enumerate() {
        let text = address.as_str().unwrap_or_default();
        if index == 0 && text == "None" {
            if list.list().len() > 1 {
                causes.push(list.refusal("'None' must be the first and only value"));
            }
        } else if let Err(why) = addresses::parse(text) {
            causes.push(list.item(index, address).refusal(why));
        }
    }
    if list.list().len() > 2 {
        causes.push(list.refusal("may only hold up to 2 values"));
    }
    if causes.len() > before {
        return;
    }
    let is_v6 = |address: &Value| address.as_str().is_some_and(|text| text.contains(':'));
    if let [first, second] = list.list()
        && is_v6(first) == is_v6(second)
    {
        causes.push(list.refusal("may specify no more than one IP for each IP family"));
    }
    let families = list
        .sibling("ipFamilies")
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    for (index, (address, family)) in list
        .list()
        .iter()
        .zip(families)
        .enumerate()
        .filter(|(_, (address, _))| *address != "None")
    {
        if is_v6(address) != (family == "IPv6") {
            let family = family.as_str().unwrap_or_default();
            let why = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            causes.push(list.item(index, address).refusal(&why));
        }
    }
}

fn node_ports(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let mut taken = HashSet::new();
    let is_internal = spec.text("type") == "ClusterIP";
    for (index, port) in spec.items("ports").iter().enumerate() {
        let Some(number) = port
            .get("nodePort")
            .and_then(Value::as_i64)
            .filter(|number| *number != 0)
        else {
            continue;
        };
        let field = spec.field(&format!("ports[{index}].nodePort"));
        if is_internal {
            causes.push(Cause::forbidden(
                field.as_str(),
                "may not be used when `type` is 'ClusterIP'",
            ));
        }
        if !taken.insert((text_or_empty(port, "/protocol"), number)) {
            causes.push(Cause::duplicate_value(field, &number.into()));
        }
    }
}

fn check_repeated(ports: &Place<'_>, causes: &mut Vec<Cause>) {
    let mut taken = HashSet::new();
    for (index, port) in ports.list().iter().enumerate() {
        let (protocol, number) = (
            text_or_empty(port, "/protocol"),
            port.get("port").and_then(Value::as_i64),
        );
        if !taken.insert((protocol, number)) {
            // the value is a Go structure, as the real server writes it
            let value = json!({
                "Name": "", "Protocol": protocol, "AppProtocol": null, "Port": number.unwrap_or_default(), "TargetPort": 0,
                "NodePort": 0,
            });
            causes.push(Cause::duplicate_value(
                ports.item(index, port).path(),
                &value,
            ));
        }
    }
}

fn source_ranges(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    const ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let is_balancer = spec.text("type") == "LoadBalancer";
    let ranges = spec.child("loadBalancerSourceRanges", "LoadBalancerSourceRanges");
    let said = spec
        .object()
        .pointer("/metadata/annotations")
        .and_then(|all| all.get(ANNOTATION));
    if !ranges.list().is_empty() {
        if !is_balancer {
            causes.push(Cause::forbidden(ranges.path(), OF_BALANCERS));
        }
        for (index, range) in ranges.list().iter().enumerate() {
            let text = range.as_str().unwrap_or_default().trim();
            let item = ranges.item(index, range);
            causes.extend(
                formats::cidr(text)
                    .iter()
                    .map(|why| Cause::invalid(item.path(), &text.into(), why)),
            );
        }
    } else if let Some(said) = said.and_then(Value::as_str) {
        let field = format!("metadata.annotations[{ANNOTATION}]");
        if !is_balancer {
            causes.push(Cause::forbidden(field.as_str(), OF_BALANCERS));
        }
        for range in said
            .split(',')
            .map(str::trim)
            .filter(|_| !said.trim().is_empty())
        {
            let faults = formats::cidr(range);
            causes.extend(
                faults
                    .iter()
                    .map(|why| Cause::invalid(field.as_str(), &range.into(), why)),
            );
        }
    }
}

fn balancer(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    if spec.text("type") == "LoadBalancer" {
        if spec.has("loadBalancerClass") {
            let name = spec.text("loadBalancerClass");
            let faults = names::qualified_name(name);
            causes.extend(
                faults
                    .iter()
                    .map(|why| spec.invalid("loadBalancerClass", &name.into(), why)),
            );
        }
        return;
    }
    for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        if spec.has(field) {
            causes.push(Cause::forbidden(spec.field(field), OF_BALANCERS));
        }
    }
}

fn traffic(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let kind = spec.text("type");
    let is_external = matches!(kind, "NodePort" | "LoadBalancer")
        || kind == "ClusterIP" && !spec.items("externalIPs").is_empty();
    if spec.has("externalTrafficPolicy") && !is_external {
        let why = "may only be set for externally-accessible services";
        causes.push(spec.invalid(
            "externalTrafficPolicy",
            spec.get("externalTrafficPolicy"),
            why,
        ));
    } else if spec.has("externalTrafficPolicy") {
        kubeapi::validate::engine::check(POLICIES, spec, causes);
    }
    let needs_check = kind == "LoadBalancer" && spec.text("externalTrafficPolicy") == "Local";
    let Some(port) = spec.number("healthCheckNodePort").filter(|port| *port != 0) else {
        return;
    };
    if !needs_check {
        let why =
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        causes.push(spec.invalid("healthCheckNodePort", &port.into(), why));
    } else if !(1..=LAST_PORT).contains(&port) {
        causes.push(spec.invalid("healthCheckNodePort", &port.into(), &range(1, LAST_PORT)));
    }
}

fn is_external_name(old: &Value, new: &Value) -> bool {
    [old, new]
        .iter()
        .any(|spec| text_or_empty(spec, "/type") == "ExternalName")
}

fn addresses_stay(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    if is_external_name(old, new) || is_headless(old) && is_headless(new) {
        return;
    }
    let of = |spec: &Value| {
        let all = kubeapi::object::items(spec, "/clusterIPs").to_vec();
        let first = text_or_empty(spec, "/clusterIP");
        if all.is_empty() && !first.is_empty() {
            vec![first.into()]
        } else {
            all
        }
    };
    list_stays("clusterIPs", "clusterIP", &of(old), &of(new), new, causes);
}

fn families_stay(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    if is_external_name(old, new) || is_headless(old) || is_headless(new) {
        return;
    }
    let of = |spec: &Value| kubeapi::object::items(spec, "/ipFamilies").to_vec();
    list_stays("ipFamilies", "ipFamily", &of(old), &of(new), new, causes);
}

/// Checks that the first item stays, and that the second is only removed with the family policy.
fn list_stays(
    field: &str,
    item: &str,
    before: &[Value],
    after: &[Value],
    spec: &Value,
    causes: &mut Vec<Cause>,
) {
    let value = Value::from(after.to_vec());
    let refuse =
        |index: usize, why: &str| Cause::invalid(format!("spec.{field}[{index}]"), &value, why);
    if before.len() == after.len() {
        let changed = before
            .iter()
            .zip(after)
            .enumerate()
            .filter(|(_, (before, after))| before != after);
        causes.extend(changed.map(|(index, _)| refuse(index, "may not change once set")));
        return;
    }
    let Some(first) = before.first() else { return };
    if after.is_empty() {
        return causes.push(refuse(0, &format!("primary {item} can not be unset")));
    }
    if after.first() != Some(first) {
        causes.push(refuse(0, "may not change once set"));
    }
    if before.len() > after.len() && text_or_empty(spec, "/ipFamilyPolicy") != "SingleStack" {
        let policy = spec.get("ipFamilyPolicy").cloned().unwrap_or_default();
        let why = format!("must be set to 'SingleStack' when releasing the secondary {item}");
        causes.push(Cause::invalid("spec.ipFamilyPolicy", &policy, &why));
    }
}

fn class_stays(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let is_balancer = |spec: &Value| text_or_empty(spec, "/type") == "LoadBalancer";
    let class = |spec: &Value| spec.get("loadBalancerClass").cloned().unwrap_or_default();
    if is_balancer(old) && is_balancer(new) && class(old) != class(new) {
        causes.push(Cause::invalid(
            "spec.loadBalancerClass",
            &class(new),
            "may not change once set",
        ));
    }
}

fn health_port_stays(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let needs_check = |spec: &Value| {
        text_or_empty(spec, "/type") == "LoadBalancer"
            && text_or_empty(spec, "/externalTrafficPolicy") == "Local"
    };
    let port = |spec: &Value| {
        spec.get("healthCheckNodePort")
            .and_then(Value::as_i64)
            .unwrap_or_default()
    };
    if needs_check(old) && needs_check(new) && port(old) != 0 && port(old) != port(new) {
        causes.push(Cause::forbidden(
            "spec.healthCheckNodePort",
            "field is immutable",
        ));
    }
}
