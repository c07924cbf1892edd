//! Decides which requests a policy or webhook matches: rules, and selectors of namespaces and objects. Pure.

use serde_json::Value;

use super::attributes::{Attributes, Version};
use kubeapi::{
    object::{items, text, text_or_empty},
    registry::Registry,
    selector::Selection,
};

/// Reports whether `spec` (a webhook, `matchConstraints`, or `matchResources`) matches the request, and in which version it wants to
/// see it. `rules` is the name of the list of rules; a missing list matches all.
///
/// # Errors
/// A selector is invalid.
pub(super) fn matches(
    spec: &Value,
    rules: &str,
    attributes: &Attributes,
    (registry, namespace): (&Registry, Option<&Value>),
) -> Result<Option<Version>, String> {
    if !selects_namespace(spec, attributes, namespace)? || !selects_object(spec, attributes)? {
        return Ok(None);
    }
    let is_exact = text(spec, "/matchPolicy") == Some("Exact");
    let mut versions = attributes.versions(registry);
    if is_exact {
        versions.truncate(1);
    }
    let excluded = items(spec, "/excludeResourceRules");
    if versions.iter().any(|version| {
        excluded
            .iter()
            .any(|rule| rule_matches(rule, attributes, version))
    }) {
        return Ok(None);
    }
    let wanted = items(spec, &format!("/{rules}"));
    if wanted.is_empty() && spec.get(rules).is_none() {
        return Ok(versions.into_iter().next());
    }
    Ok(versions.into_iter().find(|version| {
        wanted
            .iter()
            .any(|rule| rule_matches(rule, attributes, version))
    }))
}

fn selector(spec: &Value, name: &str) -> Result<Option<Selection>, String> {
    let Some(selector) = spec.get(name).filter(|selector| selector.is_object()) else {
        return Ok(None);
    };
    let read = Selection::of_labels(selector)
        .ok_or_else(|| format!("{name} is no valid label selector"))?;
    Ok(Some(read).filter(|selection| !selection.is_everything()))
}

fn selects_namespace(
    spec: &Value,
    attributes: &Attributes,
    namespace: Option<&Value>,
) -> Result<bool, String> {
    let Some(selection) = selector(spec, "namespaceSelector")? else {
        return Ok(true);
    };
    Ok(if attributes.is_namespace() {
        attributes
            .label_sets()
            .next()
            .is_some_and(|object| selection.matches(object))
    } else if attributes.kind.namespaced {
        namespace.is_some_and(|namespace| selection.matches(namespace))
    } else {
        true
    })
}

fn selects_object(spec: &Value, attributes: &Attributes) -> Result<bool, String> {
    let Some(selection) = selector(spec, "objectSelector")? else {
        return Ok(true);
    };
    Ok(attributes
        .label_sets()
        .any(|object| selection.matches(object)))
}

fn rule_matches(rule: &Value, attributes: &Attributes, version: &Version) -> bool {
    let has = |list: &str, wanted: &str| {
        items(rule, list)
            .iter()
            .filter_map(Value::as_str)
            .any(|one| one == "*" || one == wanted)
    };
    let names = items(rule, "/resourceNames");
    let scope = match text_or_empty(rule, "/scope") {
        "Namespaced" => attributes.kind.namespaced,
        "Cluster" => !attributes.kind.namespaced,
        _ => true,
    };
    scope
        && has("/operations", attributes.operation.name())
        && has("/apiGroups", &version.kind.group)
        && has("/apiVersions", &version.kind.version)
        && items(rule, "/resources")
            .iter()
            .filter_map(Value::as_str)
            .any(|pattern| resource_matches(pattern, &version.kind.plural, attributes.part_name()))
        && (names.is_empty()
            || names
                .iter()
                .any(|name| name.as_str() == Some(attributes.name.as_str())))
}

/// `pods`, `pods/status`, `pods/*`, `*/status`, `*` (without parts), `*/*`.
fn resource_matches(pattern: &str, resource: &str, part: &str) -> bool {
    let (wanted, wanted_part) = pattern.split_once('/').unwrap_or((pattern, ""));
    let is_part = if pattern == "*/*" || wanted_part == "*" {
        true
    } else {
        wanted_part == part
    };
    (wanted == "*" || wanted == resource) && is_part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_resources_and_their_parts() {
        let cases = [
            ("pods", "pods", "", true),
            ("pods", "pods", "status", false),
            ("pods/status", "pods", "status", true),
            ("pods/*", "pods", "status", true),
            ("pods/*", "pods", "", true),
            ("*", "pods", "", true),
            ("*", "pods", "status", false),
            ("*/status", "pods", "status", true),
            ("*/status", "pods", "", false),
            ("*/*", "pods", "scale", true),
            ("*/*", "pods", "", true),
            ("services", "pods", "", false),
        ];
        for (pattern, resource, part, expected) in cases {
            assert_eq!(
                resource_matches(pattern, resource, part),
                expected,
                "{pattern} {resource}/{part}"
            );
        }
    }
}
