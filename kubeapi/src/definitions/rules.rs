//! Validates definitions, with the API server's texts. Pure.

use serde_json::Value;

use super::structural_check;
use crate::{
    cause::Cause,
    names::{dns_1035_label, dns_subdomain},
    object::{items, text_or_empty},
    table,
};

/// Returns what is invalid in a definition.
pub(crate) fn check(definition: &Value) -> Vec<Cause> {
    let text = |pointer| text_or_empty(definition, pointer);
    let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
    let mut causes = Vec::new();
    if text("/metadata/name") != format!("{plural}.{group}") {
        let name = text("/metadata/name").into();
        causes.push(Cause::invalid("metadata.name", &name, "must be spec.names.plural+\".\"+spec.group"));
    }
    if group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
    } else if !dns_subdomain(group).is_empty() {
        causes.push(Cause::invalid("spec.group", &group.into(), &dns_subdomain(group).join(",")));
    } else if !group.contains('.') {
        causes.push(Cause::invalid("spec.group", &group.into(), "should be a domain with at least one dot"));
    }
    causes.extend(scope(text("/spec/scope")));
    causes.extend(names(definition));
    causes.extend(versions(definition));
    if definition.pointer("/spec/preserveUnknownFields").and_then(Value::as_bool).unwrap_or(false) {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        causes.push(Cause::invalid("spec.preserveUnknownFields", &true.into(), why));
    }
    let strategy = text("/spec/conversion/strategy");
    if !matches!(strategy, "None" | "Webhook") {
        let field = "spec.conversion.strategy";
        causes.push(Cause::unsupported(field, &strategy.into(), &["None", "Webhook"]));
    }
    causes
}

/// Returns what is invalid in an update, besides the faults of the new state.
pub(crate) fn update(old: &Value, new: &Value) -> Vec<Cause> {
    let is_established = super::conditions::is_true(old, "Established");
    let fixed = [
        ("group", "/spec/group", true),
        ("names.plural", "/spec/names/plural", true),
        ("scope", "/spec/scope", is_established),
        ("names.kind", "/spec/names/kind", is_established),
    ];
    let differs = |pointer: &str| old.pointer(pointer) != new.pointer(pointer);
    let mut causes: Vec<_> = fixed
        .into_iter()
        .filter(|(_, pointer, is_fixed)| *is_fixed && differs(pointer))
        .map(|(field, pointer, _)| {
            let value = new.pointer(pointer).cloned().unwrap_or_default();
            Cause::invalid(format!("spec.{field}"), &value, "field is immutable")
        })
        .collect();
    let versions = items(new, "/spec/versions");
    for (index, stored) in items(old, "/status/storedVersions").iter().enumerate() {
        if !versions.iter().any(|version| version.get("name") == Some(stored)) {
            let field = format!("status.storedVersions[{index}]");
            causes.push(Cause::invalid(field, stored, "must appear in spec.versions"));
        }
    }
    causes
}

/// Returns warnings about features that this API does not support.
pub(crate) fn warnings(definition: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if text_or_empty(definition, "/spec/conversion/strategy") == "Webhook" {
        warnings.push(
            "spec.conversion: this API calls no webhook; objects are served in other versions with their apiVersion changed"
                .to_owned(),
        );
    }
    warnings
}

fn scope(scope: &str) -> Option<Cause> {
    match scope {
        "" => Some(Cause::required("spec.scope", "")),
        "Namespaced" | "Cluster" => None,
        other => Some(Cause::unsupported("spec.scope", &other.into(), &["Cluster", "Namespaced"])),
    }
}

fn names(definition: &Value) -> Vec<Cause> {
    let text = |name: &str| text_or_empty(definition, &format!("/spec/names/{name}"));
    let label = |field: String, name: &str| {
        let faults = dns_1035_label(name);
        (!faults.is_empty()).then(|| Cause::invalid(field, &name.into(), &faults.join(",")))
    };
    let mixed = |field: &str| {
        let faults = dns_1035_label(&text(field).to_lowercase());
        let why = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
        (!faults.is_empty()).then(|| Cause::invalid(format!("spec.names.{field}"), &text(field).into(), &why))
    };
    let mut causes = Vec::new();
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(field).is_empty() {
            causes.push(Cause::required(format!("spec.names.{field}"), ""));
        } else if field.ends_with("ind") {
            causes.extend(mixed(field));
        } else {
            causes.extend(label(format!("spec.names.{field}"), text(field)));
        }
    }
    for list in ["shortNames", "categories"] {
        let names = items(definition, &format!("/spec/names/{list}")).iter().enumerate();
        causes.extend(names.filter_map(|(index, name)| {
            label(format!("spec.names.{list}[{index}]"), name.as_str().unwrap_or_default())
        }));
    }
    if !text("kind").is_empty() && text("kind") == text("listKind") {
        let value = text("listKind").into();
        causes.push(Cause::invalid("spec.names.listKind", &value, "kind and listKind may not be the same"));
    }
    causes
}

fn versions(definition: &Value) -> Vec<Cause> {
    const FIELD: &str = "spec.versions";
    let versions = items(definition, "/spec/versions");
    let mut causes = Vec::new();
    let mut seen = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let path = format!("{FIELD}[{index}]");
        let name = text_or_empty(version, "/name");
        let faults = dns_1035_label(name);
        if !faults.is_empty() {
            causes.push(Cause::invalid(format!("{path}.name"), &name.into(), &faults.join(",")));
        }
        if seen.contains(&name) {
            causes.push(Cause::invalid(FIELD, &name.into(), "must contain unique version names"));
        }
        seen.push(name);
        match version.pointer("/schema/openAPIV3Schema") {
            Some(schema) => {
                causes.extend(structural_check::check(schema, &format!("{path}.schema.openAPIV3Schema")))
            }
            None => {
                causes
                    .push(Cause::required(format!("{path}.schema.openAPIV3Schema"), "schemas are required"));
            }
        }
        causes.extend(columns(version, &path));
        causes.extend(scale(version, &path));
    }
    let storing =
        versions.iter().filter(|version| version.get("storage") == Some(&Value::Bool(true))).count();
    if storing != 1 {
        let names: Value = seen.into_iter().map(Value::from).collect();
        causes.push(Cause::invalid(FIELD, &names, "must have exactly one version marked as storage version"));
    }
    causes
}

fn columns(version: &Value, path: &str) -> Vec<Cause> {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    let mut causes = Vec::new();
    for (index, column) in items(version, "/additionalPrinterColumns").iter().enumerate() {
        let field = |name: &str| format!("{path}.additionalPrinterColumns[{index}].{name}");
        let text = |name: &str| text_or_empty(column, &format!("/{name}"));
        if text("name").is_empty() {
            causes.push(Cause::required(field("name"), ""));
        }
        match text("type") {
            "" => {
                let why = format!("must be one of {}", TYPES.join(","));
                causes.push(Cause::required(field("type"), &why));
            }
            type_ if !TYPES.contains(&type_) => {
                let why = format!("must be one of {}", TYPES.join(","));
                causes.push(Cause::invalid(field("type"), &type_.into(), &why));
            }
            _ => {}
        }
        match text("jsonPath") {
            "" => causes.push(Cause::required(field("jsonPath"), "")),
            json_path if !(json_path.starts_with('.') && table::is_json_path(json_path)) => {
                let why = "must be a JSONPath of fields, indexes and filters, as in .spec.size";
                causes.push(Cause::invalid(field("jsonPath"), &json_path.into(), why));
            }
            _ => {}
        }
    }
    causes
}

fn scale(version: &Value, path: &str) -> Vec<Cause> {
    let Some(scale) = version.pointer("/subresources/scale") else { return Vec::new() };
    let fields: [(&str, &[&str], bool); 3] = [
        ("specReplicasPath", &[".spec."], true),
        ("statusReplicasPath", &[".status."], true),
        ("labelSelectorPath", &[".spec.", ".status."], false),
    ];
    let mut causes = Vec::new();
    for (name, roots, is_required) in fields {
        let field = format!("{path}.subresources.scale.{name}");
        let found = text_or_empty(scale, &format!("/{name}"));
        if found.is_empty() {
            if is_required {
                causes.push(Cause::required(field, ""));
            }
        } else if !roots.iter().any(|root| found.starts_with(root)) || found.contains('[') {
            let roots: Vec<_> = roots.iter().map(|root| root.trim_end_matches('.')).collect();
            let why = format!("should be a json path under {}", roots.join(" or "));
            causes.push(Cause::invalid(field, &found.into(), &why));
        }
    }
    causes
}

#[cfg(test)]
mod tests;
