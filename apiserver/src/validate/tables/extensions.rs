//! API services, flow control and devices.

use kubeapi::{
    cause::Cause,
    object::names,
    validate::{
        change::{Change, Kept, change},
        engine::{
            Row,
            Rule::{
                Always, Between, Check, Format, Least, Name, NonNegative, Required, Supported,
                Table,
            },
            row,
        },
        formats,
        place::Place,
    },
};

pub(super) static API_SERVICE: &[Row] = &[
    row("spec", Check(group)),
    row("spec.version", Always(names::dns_1035_label)),
    row("spec.groupPriorityMinimum", Check(group_priority)),
    row("spec.versionPriority", Check(version_priority)),
    row("spec.service?", Check(service)),
    row("spec", Check(no_service)),
];

pub(super) static FLOW_SCHEMA: &[Row] = &[
    row("spec.matchingPrecedence", Check(precedence)),
    row(
        "spec.distinguisherMethod?.type",
        Supported(&["ByNamespace", "ByUser"]),
    ),
    row(
        "spec.priorityLevelConfiguration.name",
        Required("must reference a priority level"),
    ),
    row(
        "spec.priorityLevelConfiguration.name",
        Format(names::dns_subdomain),
    ),
    row("spec.rules[*]", Table(FLOW_RULE)),
];
static FLOW_RULE: &[Row] = &[
    row(
        "subjects",
        Required("subjects must contain at least one value"),
    ),
    row(
        "subjects[*].kind",
        Supported(&["Group", "ServiceAccount", "User"]),
    ),
    row("", Check(has_rules)),
];
pub(super) static PRIORITY_LEVEL: &[Row] = &[
    row("spec.type", Supported(&["Exempt", "Limited"])),
    row("spec", Check(of_level)),
];
pub(super) static RESOURCE_SLICE: &[Row] = &[
    row("spec.driver", Name(formats::driver)),
    row("spec.pool.name", Required("")),
    row(
        "spec.pool.resourceSliceCount",
        Least(1, "must be greater than zero"),
    ),
    row("spec", Check(of_nodes)),
];
pub(super) static RESOURCE_SLICE_CHANGES: &[Change] = &[
    change("spec.driver", Kept::Same),
    change("spec.pool.name", Kept::Same),
    change("spec.nodeName", Kept::Same),
    change("spec.allNodes", Kept::Same),
];
pub(super) static CLAIM_CHANGES: &[Change] = &[change("spec", Kept::Same)];

fn group(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let group = spec.text("group");
    if group.is_empty() {
        if spec.text("version") != "v1" {
            let why = "only v1 may have an empty group and it better be legacy kube";
            causes.push(Cause::required(spec.field("group"), why));
        }
        return;
    }
    causes.extend(
        names::dns_subdomain(group)
            .iter()
            .map(|why| spec.invalid("group", &group.into(), why)),
    );
}

fn group_priority(priority: &Place<'_>, causes: &mut Vec<Cause>) {
    check_bounds(
        priority,
        20_000,
        "must be positive and less than 20000",
        causes,
    );
}

fn version_priority(priority: &Place<'_>, causes: &mut Vec<Cause>) {
    check_bounds(
        priority,
        1000,
        "must be positive and less than 1000",
        causes,
    );
}

fn check_bounds(number: &Place<'_>, most: i64, why: &str, causes: &mut Vec<Cause>) {
    let value = number.value.as_i64().unwrap_or_default();
    if !(1..=most).contains(&value) {
        causes.push(Cause::invalid(number.path(), &value.into(), why));
    }
}

fn service(service: &Place<'_>, causes: &mut Vec<Cause>) {
    for name in ["namespace", "name"] {
        if service.text(name).is_empty() {
            causes.push(Cause::required(service.field(name), ""));
        }
    }
    let port = service.number("port").unwrap_or(443);
    if !(1..=65_535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        causes.push(service.invalid("port", &port.into(), why));
    }
}

fn no_service(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    if spec.has("service") && spec.is("insecureSkipTLSVerify") && !spec.text("caBundle").is_empty()
    {
        let why = "may not be true if caBundle is present";
        causes.push(spec.invalid("insecureSkipTLSVerify", &true.into(), why));
    }
    if spec.has("service") {
        return;
    }
    if !spec.text("caBundle").is_empty() {
        let why = "local APIServices may not have a caBundle";
        let bytes = format!("{} bytes", spec.text("caBundle").len());
        causes.push(spec.invalid("caBundle", &bytes.into(), why));
    }
    if spec.is("insecureSkipTLSVerify") {
        let why = "local APIServices may not have insecureSkipTLSVerify";
        causes.push(spec.invalid("insecureSkipTLSVerify", &true.into(), why));
    }
}

fn precedence(precedence: &Place<'_>, causes: &mut Vec<Cause>) {
    let number = precedence.value.as_i64().unwrap_or(1000);
    if number <= 0 {
        causes.push(Cause::invalid(
            precedence.path(),
            &number.into(),
            "must be a positive value",
        ));
    }
    if number > 10_000 {
        let why = "must not be greater than 10000";
        causes.push(Cause::invalid(precedence.path(), &number.into(), why));
    }
}

fn has_rules(rule: &Place<'_>, causes: &mut Vec<Cause>) {
    if rule.items("resourceRules").is_empty() && rule.items("nonResourceRules").is_empty() {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        causes.push(Cause::required(rule.path(), why));
    }
}

fn of_level(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let (exempt, limited) = (spec.has("exempt"), spec.has("limited"));
    match spec.text("type") {
        "Exempt" if limited => {
            causes.push(Cause::forbidden(
                spec.field("limited"),
                "must be nil if the type is not Limited",
            ));
        }
        "Limited" if exempt => {
            causes.push(Cause::forbidden(
                spec.field("exempt"),
                "must be nil if the type is Limited",
            ));
        }
        "Limited" if !limited => {
            causes.push(Cause::required(
                spec.field("limited"),
                "must not be empty when type is Limited",
            ));
        }
        "Limited" => {
            kubeapi::validate::engine::check(LIMITED, &spec.child("limited", "limited"), causes)
        }
        _ => {}
    }
}

static LIMITED: &[Row] = &[
    row("nominalConcurrencyShares", NonNegative),
    row("limitResponse.type", Supported(&["Queue", "Reject"])),
    row("limitResponse", Check(queuing)),
    row("borrowingLimitPercent", NonNegative),
    row("lendablePercent", Between(0, 100)),
];

fn queuing(response: &Place<'_>, causes: &mut Vec<Cause>) {
    let field = response.field("queuing");
    match (response.text("type"), response.has("queuing")) {
        ("Reject", true) => {
            causes.push(Cause::forbidden(
                field,
                "must be nil if limited.limitResponse.type is not Limited",
            ));
        }
        ("Queue", false) => {
            causes.push(Cause::required(
                field,
                "must not be empty if limited.limitResponse.type is Limited",
            ));
        }
        _ => {}
    }
}

fn of_nodes(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let fields = [
        "nodeName",
        "nodeSelector",
        "allNodes",
        "perDeviceNodeSelection",
    ];
    let is_set = |field: &&&str| match spec.get(field) {
        serde_json::Value::Bool(flag) => *flag,
        serde_json::Value::String(text) => !text.is_empty(),
        value => !value.is_null(),
    };
    let set: Vec<_> = fields.iter().filter(is_set).collect();
    let why = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match set.as_slice() {
        [] => causes.push(Cause::required(spec.path(), why)),
        [_] => {}
        several => {
            let names: Vec<_> = several.iter().map(|name| format!("`{name}`")).collect();
            let value = format!("{{{}}}", names.join(", "));
            causes.push(Cause::invalid(spec.path(), &value.into(), why));
        }
    }
}
