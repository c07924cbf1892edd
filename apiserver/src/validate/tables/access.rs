//! Roles and their bindings, and requests for certificates.

use std::collections::HashSet;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use kubeapi::{
    cause::Cause,
    object::{items, names, text_or_empty},
    validate::{
        change::{Change, Kept, change},
        engine::{
            Row,
            Rule::{AtLeast, Check, Name, Required, Supported, Table, Unique},
            row,
        },
        place::Place,
    },
};

use kubeapi::validate::tables::signer;

pub(super) static ROLE: &[Row] = &[row("rules[*]", Check(namespaced_rule))];
pub(super) static CLUSTER_ROLE: &[Row] = &[
    row("rules[*]", Check(cluster_rule)),
    row(
        "aggregationRule?.clusterRoleSelectors",
        Required("at least one clusterRoleSelector required if aggregationRule is non-nil"),
    ),
    row(
        "aggregationRule?.clusterRoleSelectors[*]",
        kubeapi::validate::engine::Rule::Selector,
    ),
];
pub(super) static BINDING: &[Row] = &[
    row("roleRef.apiGroup", Check(role_group)),
    row("roleRef.kind", Supported(&["Role", "ClusterRole"])),
    row("roleRef.name", Name(names::path_segment)),
    row("subjects[*]", Check(namespaced_subject)),
];
pub(super) static CLUSTER_BINDING: &[Row] = &[
    row("roleRef.apiGroup", Check(role_group)),
    row("roleRef.kind", Supported(&["ClusterRole"])),
    row("roleRef.name", Name(names::path_segment)),
    row("subjects[*]", Check(cluster_subject)),
];
pub(super) static BINDING_CHANGES: &[Change] =
    &[change("roleRef", Kept::Invalid("cannot change roleRef"))];

pub(super) static REQUEST: &[Row] = &[
    row("spec.request", Check(request)),
    row("spec.usages", Required("")),
    row("spec.usages[*]", Supported(USAGES)),
    row("spec.usages", Unique("")),
    row("spec.signerName", Check(signer_of_request)),
    row(
        "spec.expirationSeconds",
        AtLeast(
            600,
            "may not specify a duration less than 600 seconds (10 minutes)",
        ),
    ),
    row("", Table(CONDITIONS)),
];
pub(super) static CONDITIONS: &[Row] = &[
    row("status.conditions[*]", Check(condition)),
    row("status.conditions", Check(exclusive)),
    row("status.conditions", Unique("type")),
];
pub(super) static REQUEST_CHANGES: &[Change] = &[
    change("spec", Kept::Same),
    change("status.conditions", Kept::Check(conditions_stay)),
];

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
/// The group of roles, users and groups.
const GROUP: &str = "rbac.authorization.k8s.io";

fn namespaced_rule(rule: &Place<'_>, causes: &mut Vec<Cause>) {
    policy_rule(rule, true, causes);
}

fn cluster_rule(rule: &Place<'_>, causes: &mut Vec<Cause>) {
    policy_rule(rule, false, causes);
}

fn policy_rule(rule: &Place<'_>, is_namespaced: bool, causes: &mut Vec<Cause>) {
    if rule.items("verbs").is_empty() {
        causes.push(Cause::required(
            rule.field("verbs"),
            "verbs must contain at least one value",
        ));
    }
    let urls = rule.get("nonResourceURLs");
    if !rule.items("nonResourceURLs").is_empty() {
        if is_namespaced {
            let why = "namespaced rules cannot apply to non-resource URLs";
            causes.push(rule.invalid("nonResourceURLs", urls, why));
        }
        if ["apiGroups", "resources", "resourceNames"]
            .iter()
            .any(|list| !rule.items(list).is_empty())
        {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            causes.push(rule.invalid("nonResourceURLs", urls, why));
        }
        return;
    }
    for (list, what) in [("apiGroups", "api group"), ("resources", "resource")] {
        if rule.items(list).is_empty() {
            let why = format!("resource rules must supply at least one {what}");
            causes.push(Cause::required(rule.field(list), &why));
        }
    }
}

fn role_group(group: &Place<'_>, causes: &mut Vec<Cause>) {
    let text = group.value.as_str().unwrap_or_default();
    if !text.is_empty() && text != GROUP {
        causes.push(Cause::unsupported(group.path(), &text.into(), &[GROUP]));
    }
}

fn namespaced_subject(subject: &Place<'_>, causes: &mut Vec<Cause>) {
    of_subject(subject, true, causes);
}

fn cluster_subject(subject: &Place<'_>, causes: &mut Vec<Cause>) {
    of_subject(subject, false, causes);
}

fn of_subject(subject: &Place<'_>, is_namespaced: bool, causes: &mut Vec<Cause>) {
    let (name, group) = (subject.text("name"), subject.text("apiGroup"));
    if name.is_empty() {
        causes.push(Cause::required(subject.field("name"), ""));
    }
    let own = match subject.text("kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                let faults = names::dns_subdomain(name);
                causes.extend(
                    faults
                        .iter()
                        .map(|why| subject.invalid("name", &name.into(), why)),
                );
            }
            if !group.is_empty() {
                causes.push(Cause::unsupported(
                    subject.field("apiGroup"),
                    &group.into(),
                    &[""],
                ));
            }
            if !is_namespaced && subject.text("namespace").is_empty() {
                causes.push(Cause::required(subject.field("namespace"), ""));
            }
            return;
        }
        "User" | "Group" => GROUP,
        other => {
            let known = ["ServiceAccount", "User", "Group"];
            return causes.push(Cause::unsupported(
                subject.field("kind"),
                &other.into(),
                &known,
            ));
        }
    };
    if group != own {
        causes.push(Cause::unsupported(
            subject.field("apiGroup"),
            &group.into(),
            &[own],
        ));
    }
}

/// Checks that the request is a PEM block with a signing request, as far as its notation goes.
fn request(request: &Place<'_>, causes: &mut Vec<Cause>) {
    let decoded = STANDARD
        .decode(request.value.as_str().unwrap_or_default())
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&decoded);
    if !text.contains("-----BEGIN CERTIFICATE REQUEST-----")
        && !text.contains("-----BEGIN NEW CERTIFICATE REQUEST-----")
    {
        let value = if decoded.is_empty() {
            &Value::Null
        } else {
            request.value
        };
        causes.push(Cause::invalid(
            request.path(),
            value,
            "PEM block type must be CERTIFICATE REQUEST",
        ));
    }
}

fn signer_of_request(name: &Place<'_>, causes: &mut Vec<Cause>) {
    if name.value == "kubernetes.io/legacy-unknown" {
        causes.push(name.refusal("the legacy signerName is not allowed via this API version"));
    } else {
        signer::signer_name(name, causes);
    }
}

fn condition(condition: &Place<'_>, causes: &mut Vec<Cause>) {
    let (kind, status) = (condition.text("type"), condition.text("status"));
    if kind.is_empty() {
        causes.push(Cause::required(condition.field("type"), ""));
    }
    let known: &[&str] = if matches!(kind, "Approved" | "Denied" | "Failed") {
        &["True"]
    } else {
        &["False", "True", "Unknown"]
    };
    if status.is_empty() {
        causes.push(Cause::required(condition.field("status"), ""));
    } else if !known.contains(&status) {
        causes.push(Cause::unsupported(
            condition.field("status"),
            &status.into(),
            known,
        ));
    }
}

fn exclusive(conditions: &Place<'_>, causes: &mut Vec<Cause>) {
    let mut seen = HashSet::new();
    for kind in conditions
        .list()
        .iter()
        .map(|condition| text_or_empty(condition, "/type"))
    {
        let other = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => continue,
        };
        if seen.contains(other) {
            let why = "Approved and Denied conditions are mutually exclusive";
            causes.push(Cause::invalid(conditions.path(), &kind.into(), why));
        }
        seen.insert(kind);
    }
}

fn conditions_stay(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    for kind in ["Approved", "Denied", "Failed"] {
        let count = |list: &Value| {
            items(list, "")
                .iter()
                .filter(|condition| text_or_empty(condition, "/type") == kind)
                .count()
        };
        if count(new) < count(old) {
            let why = format!("updates may not remove a condition of type {kind:?}");
            causes.push(Cause::forbidden("status.conditions", &why));
        }
    }
}
