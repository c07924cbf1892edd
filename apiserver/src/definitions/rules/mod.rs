//! Validates definitions, with the API server's texts. Pure.

use serde_json::Value;

use super::{conversion_rules, ratchets::Ratchets, schema_parts, version_rules};
use crate::{go_url, string_formats};
use kubeapi::{
    cause::Cause,
    object::{
        items,
        names::{dns_1035_label, dns_subdomain},
        text, text_or_empty,
    },
};

/// The annotation that definitions of Kubernetes' own groups must have.
const APPROVAL: &str = "api-approved.kubernetes.io";

/// Returns what is invalid in a definition, which replaces `old`. What was wrong before in some ways may stay so.
pub(crate) fn check(definition: &Value, old: Option<&Value>) -> Vec<Cause> {
    if old.is_some_and(|old| old.get("spec") == definition.get("spec")) {
        return stored_versions(definition);
    }
    let text = |pointer| text_or_empty(definition, pointer);
    let group = text("/spec/group");
    let mut causes = Vec::new();
    if group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
    } else if !dns_subdomain(group).is_empty() {
        causes.push(Cause::invalid(
            "spec.group",
            &group.into(),
            &dns_subdomain(group).join(","),
        ));
    } else if !group.contains('.') {
        causes.push(Cause::invalid(
            "spec.group",
            &group.into(),
            "should be a domain with at least one dot",
        ));
    }
    causes.extend(scope(text("/spec/scope")));
    causes.extend(version_rules::check(definition, &Ratchets::of(old)));
    causes.extend(names(definition));
    causes.extend(version_rules::check_parts(definition, &Ratchets::of(old)));
    causes.extend(conversion_rules::check(definition, old));
    causes.extend(stored_versions(definition));
    causes.extend(approval(definition, old));
    if definition
        .pointer("/spec/preserveUnknownFields")
        .and_then(Value::as_bool)
        .unwrap_or(false)
    {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        causes.push(Cause::invalid(
            "spec.preserveUnknownFields",
            &true.into(),
            why,
        ));
    }
    causes
}

/// Returns what is invalid in an update, besides the faults of the new state.
pub(crate) fn update(old: &Value, new: &Value) -> Vec<Cause> {
    let is_established =
        kubeapi::object::definition_status::conditions::is_true(old, "Established");
    let fixed = [
        ("scope", "/spec/scope", is_established),
        ("names.kind", "/spec/names/kind", is_established),
        ("group", "/spec/group", true),
        ("names.plural", "/spec/names/plural", true),
    ];
    let differs = |pointer: &str| old.pointer(pointer) != new.pointer(pointer);
    fixed
        .into_iter()
        .filter(|(_, pointer, is_fixed)| *is_fixed && differs(pointer))
        .map(|(field, pointer, _)| {
            let value = new.pointer(pointer).cloned().unwrap_or_default();
            Cause::invalid(format!("spec.{field}"), &value, "field is immutable")
        })
        .collect()
}

/// Returns warnings about formats that have no effect, besides those of the definition that is replaced.
pub(crate) fn format_warnings(definition: &Value, old: Option<&Value>) -> Vec<String> {
    let mut known = old.map(formats).unwrap_or_default();
    let mut warnings = Vec::new();
    for format in formats(definition) {
        if !known.contains(&format) {
            known.push(format);
            warnings.push(format!("unrecognized format {format:?}"));
        }
    }
    warnings
}

fn formats(definition: &Value) -> Vec<&str> {
    let mut formats = Vec::new();
    for version in items(definition, "/spec/versions") {
        unknown_formats(
            version
                .pointer("/schema/openAPIV3Schema")
                .unwrap_or(&Value::Null),
            &mut formats,
        );
    }
    formats
}

/// Collects the formats in a schema that have no effect.
fn unknown_formats<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
    let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
    if !text("format").is_empty() && !string_formats::is_known(text("format"), text("type")) {
        found.push(text("format"));
    }
    for (_, inner) in schema_parts::inner(schema) {
        unknown_formats(inner, found);
    }
}

fn scope(scope: &str) -> Option<Cause> {
    match scope {
        "" => Some(Cause::required("spec.scope", "")),
        "Namespaced" | "Cluster" => None,
        other => Some(Cause::unsupported(
            "spec.scope",
            &other.into(),
            &["Cluster", "Namespaced"],
        )),
    }
}

fn names(definition: &Value) -> Vec<Cause> {
    let text = |name: &str| text_or_empty(definition, &format!("/spec/names/{name}"));
    let label = |field: String, name: &str| {
        let faults = dns_1035_label(name);
        (!faults.is_empty()).then(|| Cause::invalid(field, &name.into(), &faults.join(",")))
    };
    let fields = ["plural", "singular", "kind", "listKind"];
    let mut causes: Vec<_> = fields
        .into_iter()
        .filter(|field| text(field).is_empty())
        .map(|field| Cause::required(format!("spec.names.{field}"), ""))
        .collect();
    for field in fields.into_iter().filter(|field| !text(field).is_empty()) {
        let path = format!("spec.names.{field}");
        if field.ends_with("ind") {
            let faults = dns_1035_label(&text(field).to_lowercase());
            let why = format!(
                "may have mixed case, but should otherwise match: {}",
                faults.join(",")
            );
            causes.extend(
                (!faults.is_empty()).then(|| Cause::invalid(path, &text(field).into(), &why)),
            );
        } else {
            causes.extend(label(path, text(field)));
        }
    }
    let listed = |list: &str| {
        let names = items(definition, &format!("/spec/names/{list}"))
            .iter()
            .enumerate();
        let path = |index: usize| format!("spec.names.{list}[{index}]");
        let faults =
            names.filter_map(|(index, name)| label(path(index), name.as_str().unwrap_or_default()));
        faults.collect::<Vec<_>>()
    };
    causes.extend(listed("shortNames"));
    if !text("kind").is_empty() && text("kind") == text("listKind") {
        let value = text("listKind").into();
        causes.push(Cause::invalid(
            "spec.names.listKind",
            &value,
            "kind and listKind may not be the same",
        ));
    }
    causes.extend(listed("categories"));
    causes
}

/// Each version that objects were stored in must be there.
fn stored_versions(definition: &Value) -> Vec<Cause> {
    const FIELD: &str = "status.storedVersions";
    let stored = items(definition, "/status/storedVersions");
    let versions = items(definition, "/spec/versions");
    if stored.is_empty() {
        // the server sets it to the storage version, of which there is none
        let has_storage = versions
            .iter()
            .any(|version| version.get("storage") == Some(&Value::Bool(true)));
        let why = "must have at least one stored version";
        return if has_storage {
            Vec::new()
        } else {
            vec![Cause::invalid(FIELD, &Value::Null, why)]
        };
    }
    let missing = stored.iter().enumerate().filter(|(_, stored)| {
        !versions
            .iter()
            .any(|version| version.get("name") == Some(stored))
    });
    missing
        .map(|(index, stored)| {
            let name = stored.as_str().unwrap_or_default();
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            Cause::invalid(format!("{FIELD}[{index}]"), stored, &why)
        })
        .collect()
}

/// Definitions of Kubernetes' own groups name the review that approved them.
fn approval(definition: &Value, old: Option<&Value>) -> Option<Cause> {
    let group = text_or_empty(definition, "/spec/group");
    let is_own = |domain: &str| group == domain || group.ends_with(&format!(".{domain}"));
    if !is_own("k8s.io") && !is_own("kubernetes.io") {
        return None;
    }
    let state = |definition: &Value| {
        let annotation = text(definition, &format!("/metadata/annotations/{APPROVAL}"))
            .unwrap_or_default()
            .to_owned();
        let is_url = go_url::parse_request_uri(&annotation)
            .is_ok_and(|url| !url.host.is_empty() && !url.scheme.is_empty());
        match annotation.as_str() {
            "" => (Some("Missing"), annotation),
            bypassed if bypassed.starts_with("unapproved") => (None, annotation),
            _ if is_url => (None, annotation),
            _ => (Some("Invalid"), annotation),
        }
    };
    let (now, annotation) = state(definition);
    if old.is_some_and(|old| state(old).0 == now) {
        return None;
    }
    let field = format!("metadata.annotations[{APPROVAL}]");
    let rule = format!("protected groups must have approval annotation \"{APPROVAL}\"");
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    match now? {
        "Missing" => Some(Cause::required(field, &format!("{rule}, {SEE}"))),
        _ => {
            let why =
                format!("{rule} with either a URL or a reason starting with \"unapproved\", {SEE}");
            Some(Cause::invalid(field, &annotation.into(), &why))
        }
    }
}

#[cfg(test)]
mod tests;
