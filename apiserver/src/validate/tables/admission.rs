//! Admission policies, their bindings, and webhooks, except for their expressions.

use std::collections::HashSet;

use crate::review::ReviewVersion;
use kubeapi::{
    cause::Cause,
    object::{names, text_or_empty},
    validate::{
        engine::{
            Row,
            Rule::{
                Always, Check, Limited, Name, OneOf, Present, Required, Selector, Supported, Table,
                Unique,
            },
            row,
        },
        formats,
        place::Place,
    },
};

use super::webhook_url;

const NO_VALIDATION: &str = "validations or auditAnnotations must contain at least one item";
const FAILURE: kubeapi::validate::engine::Rule = Supported(&["Fail", "Ignore"]);
const MATCHES: kubeapi::validate::engine::Rule = Supported(&["Equivalent", "Exact"]);

pub(super) static VALIDATING_POLICY: &[Row] = &[
    row("spec", Table(POLICY)),
    row("spec", Check(has_validation)),
    row("spec.auditAnnotations[*].key", Check(annotation_key)),
    row("spec.auditAnnotations", Unique("key")),
    row("spec.validations[*].message?", Check(message)),
];
pub(super) static MUTATING_POLICY: &[Row] = &[
    row("spec", Table(POLICY)),
    row(
        "spec.mutations",
        Required("mutations must contain at least one item"),
    ),
    row("spec.mutations[*].patchType", Required("")),
    row(
        "spec.mutations[*].patchType",
        OneOf(&["ApplyConfiguration", "JSONPatch"]),
    ),
    row("spec.reinvocationPolicy", Required("")),
    row("spec.reinvocationPolicy", OneOf(&["IfNeeded", "Never"])),
];
pub(super) static VALIDATING_BINDING: &[Row] = &[
    row("spec", Table(BINDING)),
    row("spec.validationActions", Check(actions)),
];
pub(super) static MUTATING_BINDING: &[Row] = &[row("spec", Table(BINDING))];
pub(super) static VALIDATING_WEBHOOKS: &[Row] = &[
    row("webhooks[*]", Table(WEBHOOK)),
    row("webhooks", Unique("name")),
];
pub(super) static MUTATING_WEBHOOKS: &[Row] = &[
    row("webhooks[*]", Table(WEBHOOK)),
    row(
        "webhooks[*].reinvocationPolicy?",
        Supported(&["IfNeeded", "Never"]),
    ),
    row("webhooks", Unique("name")),
];

static POLICY: &[Row] = &[
    row("failurePolicy", Required("")),
    row("failurePolicy?", FAILURE),
    row("paramKind?", Check(param_kind)),
    row("matchConstraints", Present("")),
    row("matchConstraints?", Table(RESOURCES)),
    row("matchConstraints?.resourceRules", Required("")),
    row("matchConditions[*].name", Name(names::qualified_name)),
    row("matchConditions", Unique("name")),
];

static BINDING: &[Row] = &[
    row("policyName", Name(names::dns_subdomain)),
    row("paramRef?", Check(param_ref)),
    row("matchResources?", Table(RESOURCES)),
];

static RESOURCES: &[Row] = &[
    row("matchPolicy?", MATCHES),
    row("namespaceSelector?", Selector),
    row("objectSelector?", Selector),
    row("resourceRules[*]", Table(NAMED_RULE)),
    row("excludeResourceRules[*]", Table(NAMED_RULE)),
];

static NAMED_RULE: &[Row] = &[
    row("resourceNames[*]", Always(names::path_segment)),
    row("resourceNames", Unique("")),
    row("", Table(RULE)),
];

static RULE: &[Row] = &[
    row("operations", Required("")),
    row("operations", Check(operations)),
    row(
        "operations[*]",
        Supported(&["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]),
    ),
    row("apiGroups", Required("")),
    row("apiGroups", Check(groups)),
    row("apiVersions", Required("")),
    row("apiVersions", Check(versions)),
    row("apiVersions[*]", Required("")),
    row("resources", Required("")),
    row("resources", Check(resources)),
    row("scope?", Supported(&["*", "Cluster", "Namespaced"])),
];

static WEBHOOK: &[Row] = &[
    row("name", Name(formats::fully_qualified_name)),
    row("rules[*]", Table(RULE)),
    row("failurePolicy?", FAILURE),
    row("matchPolicy?", MATCHES),
    row(
        "sideEffects",
        Present("must specify one of None, NoneOnDryRun"),
    ),
    row("sideEffects?", Supported(&["None", "NoneOnDryRun"])),
    row(
        "timeoutSeconds",
        Limited(1, 30, "the timeout value must be between 1 and 30 seconds"),
    ),
    row("namespaceSelector?", Selector),
    row("objectSelector?", Selector),
    row("clientConfig", Check(client)),
    row("matchConditions[*].name", Name(names::qualified_name)),
    row("matchConditions", Unique("name")),
    row("admissionReviewVersions", Check(review_versions)),
];

fn has_validation(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    if spec.items("validations").is_empty() && spec.items("auditAnnotations").is_empty() {
        causes.push(Cause::required(spec.field("validations"), NO_VALIDATION));
        causes.push(Cause::required(
            spec.field("auditAnnotations"),
            NO_VALIDATION,
        ));
    }
}

/// Checks the key of an annotation, to which the name of the policy is added.
fn annotation_key(key: &Place<'_>, causes: &mut Vec<Cause>) {
    let policy = text_or_empty(key.object(), "/metadata/name");
    let key_text = key.value.as_str().unwrap_or_default();
    if policy.is_empty() {
        return causes.push(key.refusal("requires metadata.name be non-empty"));
    }
    let name = format!("{policy}/{key_text}");
    let faults = names::qualified_name(&name);
    causes.extend(
        faults
            .iter()
            .map(|why| Cause::invalid(key.path(), &name.as_str().into(), why)),
    );
}

fn message(message: &Place<'_>, causes: &mut Vec<Cause>) {
    let text = message.value.as_str().unwrap_or_default();
    if !text.is_empty() && text.trim().is_empty() {
        causes.push(message.refusal("message must be non-empty if specified"));
    }
}

fn param_kind(kind: &Place<'_>, causes: &mut Vec<Cause>) {
    let (version, name) = (kind.text("apiVersion"), kind.text("kind"));
    let invalid = |field: &str, text: &str, why: &str| kind.invalid(field, &text.into(), why);
    match version.split('/').collect::<Vec<_>>().as_slice() {
        [""] => causes.push(Cause::required(kind.field("apiVersion"), "")),
        parts @ ([_] | [_, _]) => {
            let group = if parts.len() == 2 { parts[0] } else { "" };
            let short = parts.last().copied().unwrap_or_default();
            let faults = if group.is_empty() {
                Vec::new()
            } else {
                names::dns_subdomain(group)
            };
            causes.extend(
                (!faults.is_empty()).then(|| invalid("apiVersion", group, &faults.join(","))),
            );
            let faults = names::dns_1035_label(short);
            if short.is_empty() {
                causes.push(invalid("apiVersion", version, "version must be specified"));
            } else if !faults.is_empty() {
                causes.push(invalid("apiVersion", short, &faults.join(",")));
            }
        }
        _ => causes.push(invalid(
            "apiVersion",
            version,
            &format!("unexpected GroupVersion string: {version}"),
        )),
    }
    let faults = names::dns_1035_label(&name.to_lowercase());
    if name.is_empty() {
        causes.push(Cause::required(kind.field("kind"), ""));
    } else if !faults.is_empty() {
        let why = format!(
            "may have mixed case, but should otherwise match: {}",
            faults.join(",")
        );
        causes.push(invalid("kind", name, &why));
    }
}

fn param_ref(reference: &Place<'_>, causes: &mut Vec<Cause>) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let (name, has_selector) = (reference.text("name"), reference.has("selector"));
    if !name.is_empty() {
        let faults = names::path_segment(name);
        causes.extend(
            faults
                .iter()
                .map(|why| reference.invalid("name", &name.into(), why)),
        );
        causes.extend(has_selector.then(|| Cause::forbidden(reference.field("name"), EXCLUSIVE)));
    }
    if has_selector {
        kubeapi::validate::labels::selector(&reference.child("selector", "selector"), causes);
        causes.extend(
            (!name.is_empty()).then(|| Cause::forbidden(reference.field("selector"), EXCLUSIVE)),
        );
    }
    let field = reference.field("parameterNotFoundAction");
    match reference.text("parameterNotFoundAction") {
        "" => causes.push(Cause::required(field, "")),
        "Allow" | "Deny" => {}
        other => causes.push(Cause::unsupported(field, &other.into(), &["Deny", "Allow"])),
    }
    if name.is_empty() && !has_selector {
        causes.push(Cause::required(
            reference.path(),
            "one of name or selector must be specified",
        ));
    }
}

fn actions(list: &Place<'_>, causes: &mut Vec<Cause>) {
    let mut taken = HashSet::new();
    for (index, action) in list.list().iter().enumerate() {
        let place = list.item(index, action);
        if !matches!(action.as_str(), Some("Audit" | "Deny" | "Warn")) {
            causes.push(Cause::unsupported(
                place.path(),
                action,
                &["Audit", "Deny", "Warn"],
            ));
        }
        if !taken.insert(action.as_str().unwrap_or_default()) {
            causes.push(Cause::duplicate_value(place.path(), action));
        }
    }
    if taken.contains("Deny") && taken.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and \
                   headers serves no purpose)";
        causes.push(list.refusal(why));
    }
    if taken.is_empty() {
        causes.push(Cause::required(
            list.path(),
            "at least one validation action is required",
        ));
    }
}

fn operations(list: &Place<'_>, causes: &mut Vec<Cause>) {
    lonely_wildcard(list, "operations", causes);
}

fn groups(list: &Place<'_>, causes: &mut Vec<Cause>) {
    lonely_wildcard(list, "API groups", causes);
}

fn versions(list: &Place<'_>, causes: &mut Vec<Cause>) {
    lonely_wildcard(list, "API versions", causes);
}

fn lonely_wildcard(list: &Place<'_>, what: &str, causes: &mut Vec<Cause>) {
    if list.list().len() > 1 && list.list().iter().any(|item| item == "*") {
        causes.push(list.refusal(&format!("if '*' is present, must not specify other {what}")));
    }
}

fn resources(list: &Place<'_>, causes: &mut Vec<Cause>) {
    let (mut whole, mut everywhere) = (HashSet::new(), HashSet::new());
    let texts: Vec<_> = list
        .list()
        .iter()
        .map(|item| item.as_str().unwrap_or_default())
        .collect();
    for (index, text) in texts.iter().copied().enumerate() {
        let field = format!("{}[{index}]", list.path());
        if text.is_empty() {
            causes.push(Cause::required(field.as_str(), ""));
        }
        let Some((resource, part)) = text.split_once('/') else {
            continue;
        };
        let refuse = |other: String| {
            let why = format!("if '{other}' is present, must not specify {text}");
            Cause::invalid(field.as_str(), &text.into(), &why)
        };
        causes.extend(
            whole
                .contains(resource)
                .then(|| refuse(format!("{resource}/*"))),
        );
        causes.extend(
            everywhere
                .contains(part)
                .then(|| refuse(format!("*/{part}"))),
        );
        if part == "*" {
            whole.insert(resource);
        }
        if resource == "*" {
            everywhere.insert(part);
        }
    }
    if texts.len() > 1 && texts.contains(&"*/*") {
        causes.push(list.refusal("if '*/*' is present, must not specify other resources"));
    }
    if texts.contains(&"*")
        && texts
            .iter()
            .any(|text| !text.is_empty() && *text != "*" && !text.contains('/'))
    {
        let why = "if '*' is present, must not specify other resources without subresources";
        causes.push(list.refusal(why));
    }
}

/// Checks the versions of reviews; the only one that is spoken is `v1`.
fn review_versions(list: &Place<'_>, causes: &mut Vec<Cause>) {
    if list.list().is_empty() {
        return causes.push(Cause::required(
            list.path(),
            "must specify one of v1, v1beta1",
        ));
    }
    let mut taken = HashSet::new();
    for (index, version) in list.list().iter().enumerate() {
        let (place, text) = (
            list.item(index, version),
            version.as_str().unwrap_or_default(),
        );
        if taken.insert(text) {
            causes.extend(
                names::dns_1035_label(text)
                    .iter()
                    .map(|why| place.refusal(why)),
            );
        } else {
            causes.push(Cause::duplicate(place.path(), text));
        }
    }
    if ReviewVersion::first_known(taken).is_none() {
        causes.push(list.refusal("must include at least one of v1, v1beta1"));
    }
}

fn client(client: &Place<'_>, causes: &mut Vec<Cause>) {
    match (client.get("url").as_str(), client.has("service")) {
        (Some(url), false) => webhook_url::check(&client.field("url"), url, causes),
        (None, true) => service(&client.child("service", "service"), causes),
        _ => causes.push(Cause::required(
            client.path(),
            "exactly one of url or service is required",
        )),
    }
}

fn service(service: &Place<'_>, causes: &mut Vec<Cause>) {
    for name in ["name", "namespace"] {
        if service.text(name).is_empty() {
            causes.push(Cause::required(service.field(name), ""));
        }
    }
    let port = service.number("port").unwrap_or(443);
    if !(1..=65_535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        causes.push(service.invalid("port", &port.into(), why));
    }
    if let Some(path) = service.get("path").as_str() {
        causes.extend(webhook_url::path(&service.field("path"), path));
    }
}
