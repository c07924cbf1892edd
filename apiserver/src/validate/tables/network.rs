//! Network policies, ingresses and their classes, addresses and ranges of addresses.

use serde_json::Value;

use kubeapi::{
    cause::Cause,
    object::{names, text_or_empty},
    validate::{
        change::{Change, Kept, change},
        engine::{
            Row,
            Rule::{
                Check, Format, FormatIfSet, MaxBytes, Name, OneOf, Present, Required, Selector,
                Supported, Table,
            },
            row,
        },
        formats,
        numbers::{LAST_PORT, range},
        place::Place,
    },
};

pub(super) static POLICY: &[Row] = &[
    row("spec.podSelector", Selector),
    row("spec.ingress[*].ports[*]", Table(POLICY_PORT)),
    row("spec.ingress[*].from[*]", Table(PEER)),
    row("spec.egress[*].ports[*]", Table(POLICY_PORT)),
    row("spec.egress[*].to[*]", Table(PEER)),
    row("spec.policyTypes", Check(policy_types)),
];
static POLICY_PORT: &[Row] = &[
    row("protocol", OneOf(&["TCP", "UDP", "SCTP"])),
    row("", Check(port_range)),
];
static PEER: &[Row] = &[
    row("podSelector?", Selector),
    row("namespaceSelector?", Selector),
    row("ipBlock?", Check(block)),
    row("", Check(one_peer)),
];

pub(super) static INGRESS: &[Row] = &[
    row("spec", Check(has_backend)),
    row("spec.defaultBackend?", Check(backend)),
    row("spec.rules[*]", Table(INGRESS_RULE)),
    row("spec.tls[*].hosts[*]", Format(formats::host)),
    row("spec.tls[*].secretName", Format(names::dns_subdomain)),
    row("spec.ingressClassName", FormatIfSet(names::dns_subdomain)),
];
static INGRESS_RULE: &[Row] = &[
    row("host", Check(not_an_address)),
    row("host", Format(formats::host)),
    row("http?.paths", Required("")),
    row("http?.paths[*]", Check(ingress_path)),
];

pub(super) static NEW_INGRESS: &[Row] = &[row("spec", Check(same_class))];

pub(super) static CLASS: &[Row] = &[
    row("spec.controller", MaxBytes(250)),
    row("spec.controller", Name(formats::domain_prefixed_path)),
    row("spec.parameters?", Table(PARAMETERS)),
];
static PARAMETERS: &[Row] = &[
    row("", Table(REFERENCE)),
    row("scope", Present("")),
    row("scope?", Supported(&["Cluster", "Namespace"])),
    row("", Check(scope)),
];
static REFERENCE: &[Row] = &[
    row("apiGroup", FormatIfSet(names::dns_subdomain)),
    row("kind", Required("kind is required")),
    row("kind", Format(names::path_segment)),
    row("name", Required("name is required")),
    row("name", Format(names::path_segment)),
];

pub(super) static ADDRESS: &[Row] = &[
    row("spec.parentRef", Present("")),
    row("spec.parentRef?", Table(PARENT)),
];
static PARENT: &[Row] = &[
    row("group", Format(names::dns_subdomain)),
    row("resource", Name(names::path_segment)),
    row("name", Name(names::path_segment)),
    row("namespace", Format(names::path_segment)),
];
pub(super) static RANGE: &[Row] = &[
    row("spec.cidrs", Required("at least one CIDR required")),
    row("spec.cidrs", Check(two_ranges)),
];

pub(super) static CLASS_CHANGES: &[Change] = &[change("spec.controller", Kept::Same)];
pub(super) static ADDRESS_CHANGES: &[Change] = &[change("spec.parentRef", Kept::Same)];
pub(super) static RANGE_CHANGES: &[Change] = &[change("spec.cidrs", Kept::Same)];

fn port_range(port: &Place<'_>, causes: &mut Vec<Cause>) {
    let end = port.number("endPort");
    let why = match port.get("port") {
        Value::Null => "may not be specified when `port` is not specified",
        Value::String(name) => {
            causes.extend(
                names::port_name(name)
                    .iter()
                    .map(|why| port.invalid("port", port.get("port"), why)),
            );
            "may not be specified when `port` is non-numeric"
        }
        number => {
            let number = number.as_i64().unwrap_or_default();
            if !(1..=LAST_PORT).contains(&number) {
                causes.push(port.invalid("port", &number.into(), &range(1, LAST_PORT)));
            }
            let Some(end) = end else { return };
            if end < number {
                causes.push(port.invalid(
                    "endPort",
                    &number.into(),
                    "must be greater than or equal to `port`",
                ));
            }
            if !(1..=LAST_PORT).contains(&end) {
                causes.push(port.invalid("endPort", &end.into(), &range(1, LAST_PORT)));
            }
            return;
        }
    };
    causes.extend(end.map(|end| port.invalid("endPort", &end.into(), why)));
}

fn one_peer(peer: &Place<'_>, causes: &mut Vec<Cause>) {
    let count = ["podSelector", "namespaceSelector", "ipBlock"]
        .iter()
        .filter(|name| peer.has(name))
        .count();
    if count == 0 {
        causes.push(Cause::required(peer.path(), "must specify a peer"));
    } else if count > 1 && peer.has("ipBlock") {
        causes.push(Cause::forbidden(
            peer.path(),
            "may not specify both ipBlock and another peer",
        ));
    }
}

fn block(block: &Place<'_>, causes: &mut Vec<Cause>) {
    let text = block.text("cidr");
    if text.is_empty() {
        return causes.push(Cause::required(block.field("cidr"), ""));
    }
    causes.extend(
        formats::cidr(text)
            .iter()
            .map(|why| block.invalid("cidr", &text.into(), why)),
    );
    let Some(whole) = formats::parse_cidr(text) else {
        return;
    };
    for (index, part) in block.items("except").iter().enumerate() {
        let field = format!("except[{index}]");
        let text = part.as_str().unwrap_or_default();
        causes.extend(
            formats::cidr(text)
                .iter()
                .map(|why| block.invalid(&field, part, why)),
        );
        if formats::parse_cidr(text).is_some_and(|part| !formats::contains(whole, part)) {
            causes.push(block.invalid(&field, part, "must be a strict subset of `cidr`"));
        }
    }
}

fn policy_types(types: &Place<'_>, causes: &mut Vec<Cause>) {
    const KNOWN: &[&str] = &["Ingress", "Egress"];
    if types.list().len() > KNOWN.len() {
        return causes.push(types.refusal("may not specify more than two policyTypes"));
    }
    for (index, kind) in types.list().iter().enumerate() {
        if !kind.as_str().is_some_and(|kind| KNOWN.contains(&kind)) {
            causes.push(Cause::unsupported(
                types.item(index, kind).path(),
                kind,
                KNOWN,
            ));
        }
    }
}

fn has_backend(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    if spec.items("rules").is_empty() && !spec.has("defaultBackend") {
        let why = "either `defaultBackend` or `rules` must be specified";
        causes.push(Cause::invalid(spec.path(), spec.get("rules"), why));
    }
}

fn not_an_address(host: &Place<'_>, causes: &mut Vec<Cause>) {
    if host
        .value
        .as_str()
        .is_some_and(|host| host.parse::<std::net::IpAddr>().is_ok())
    {
        causes.push(host.refusal("must be a DNS name, not an IP address"));
    }
}

fn ingress_path(path: &Place<'_>, causes: &mut Vec<Cause>) {
    const KNOWN: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
    const INSIDE: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
    const AT_END: [&str; 2] = ["/..", "/."];
    let (kind, text) = (path.text("pathType"), path.text("path"));
    let mut refuse = |why: &str| causes.push(path.invalid("path", &text.into(), why));
    match kind {
        "" if !path.has("pathType") => {
            return causes.push(Cause::required(
                path.field("pathType"),
                "pathType must be specified",
            ));
        }
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                refuse("must be an absolute path");
            }
            for part in INSIDE.iter().filter(|part| text.contains(**part)) {
                refuse(&format!("must not contain '{part}'"));
            }
            for part in AT_END.iter().filter(|part| text.ends_with(**part)) {
                refuse(&format!("cannot end with '{part}'"));
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !text.starts_with('/') {
                refuse("must be an absolute path");
            }
        }
        other => causes.push(Cause::unsupported(
            path.field("pathType"),
            &other.into(),
            KNOWN,
        )),
    }
    backend(&path.child("backend", "backend"), causes);
}

fn backend(backend: &Place<'_>, causes: &mut Vec<Cause>) {
    let refuse = |why: &str| Cause::invalid(backend.path(), &"".into(), why);
    let service = backend.child("service", "service");
    match (backend.has("resource"), backend.has("service")) {
        (true, true) => {
            return causes.push(refuse("cannot set both resource and service backends"));
        }
        (false, false) => return causes.push(refuse("resource or service backend is required")),
        (true, false) => {
            return kubeapi::validate::engine::check(
                REFERENCE,
                &backend.child("resource", "resource"),
                causes,
            );
        }
        (false, true) => {}
    }
    match service.text("name") {
        "" => causes.push(Cause::required(service.field("name"), "")),
        name => {
            let faults = names::dns_label(name);
            causes.extend(
                faults
                    .iter()
                    .map(|why| service.invalid("name", &name.into(), why)),
            );
        }
    }
    let port = service.child("port", "port");
    let (name, number) = (port.text("name"), port.number("number").unwrap_or_default());
    match (name, number) {
        ("", 0) => causes.push(Cause::required(
            backend.path(),
            "port name or number is required",
        )),
        ("", number) if !(1..=LAST_PORT).contains(&number) => {
            causes.push(port.invalid("number", &number.into(), &range(1, LAST_PORT)));
        }
        ("", _) => {}
        (name, 0) => {
            causes.extend(
                names::port_name(name)
                    .iter()
                    .map(|why| port.invalid("name", &name.into(), why)),
            );
        }
        _ => causes.push(refuse("cannot set both port name & port number")),
    }
}

fn same_class(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    const ANNOTATION: &str = "kubernetes.io/ingress.class";
    let said = spec
        .object()
        .pointer("/metadata/annotations")
        .and_then(|all| all.get(ANNOTATION));
    if let Some(said) =
        said.filter(|said| spec.has("ingressClassName") && *said != spec.get("ingressClassName"))
    {
        let why = "must match `ingressClassName` when both are specified";
        causes.push(Cause::invalid(
            format!("annotations.{ANNOTATION}"),
            said,
            why,
        ));
    }
}

fn scope(parameters: &Place<'_>, causes: &mut Vec<Cause>) {
    let field = || parameters.field("namespace");
    match parameters.text("scope") {
        "Namespace" if !parameters.has("namespace") => {
            causes.push(Cause::required(
                field(),
                "`parameters.scope` is set to 'Namespace'",
            ));
        }
        "Namespace" => {
            let name = text_or_empty(parameters.value, "/namespace");
            let faults = names::dns_label(name);
            causes.extend(
                faults
                    .iter()
                    .map(|why| Cause::invalid(field(), &name.into(), why)),
            );
        }
        "Cluster" if parameters.has("namespace") => {
            causes.push(Cause::forbidden(
                field(),
                "`parameters.scope` is set to 'Cluster'",
            ));
        }
        _ => {}
    }
}

fn two_ranges(ranges: &Place<'_>, causes: &mut Vec<Cause>) {
    let list = ranges.list();
    if list.len() > 2 {
        return causes.push(ranges.refusal("may only hold up to 2 values"));
    }
    let is_v4 = |range: &Value| {
        range
            .as_str()
            .and_then(formats::parse_cidr)
            .map(|(address, _)| address.is_ipv4())
    };
    if let [first, second] = list
        && (is_v4(first).is_none() || is_v4(second).is_none() || is_v4(first) == is_v4(second))
    {
        let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        return causes.push(ranges.refusal(why));
    }
    for (index, range) in list.iter().enumerate() {
        let faults = formats::cidr(range.as_str().unwrap_or_default());
        causes.extend(
            faults
                .iter()
                .map(|why| ranges.item(index, range).refusal(why)),
        );
    }
}
