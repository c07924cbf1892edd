//! Node selectors and required node affinity.
//!
//! Source: Kubernetes, "Assigning Pods to Nodes".

use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod,
};

use super::labels;

/// Reports whether the node matches the pod's node selector and required node affinity.
pub(super) fn matches(pod: &Pod, node: &Node) -> bool {
    let (Some(spec), labels) = (&pod.spec, labels(node)) else {
        return true;
    };
    let selected = spec
        .node_selector
        .iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value));
    let affinity = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| {
        affinity
            .required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    selected && required.is_none_or(|any| selector_matches(any, node))
}

/// Reports whether one of the selector's terms matches the node.
pub(crate) fn selector_matches(selector: &NodeSelector, node: &Node) -> bool {
    selector
        .node_selector_terms
        .iter()
        .any(|term| term_matches(term, node))
}

/// Reports whether all requirements of the term match the node. A term without requirements matches no node.
fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let labels = labels(node);
    let (expressions, fields) = (
        term.match_expressions.iter().flatten(),
        term.match_fields.iter().flatten(),
    );
    let name = node.metadata.name.as_deref();
    let mut of_labels = expressions
        .clone()
        .map(|one| requirement_matches(one, labels.get(&one.key).map(String::as_str)));
    let mut of_fields = fields
        .clone()
        .map(|one| one.key == "metadata.name" && requirement_matches(one, name));
    let is_empty = expressions.count() + fields.count() == 0;
    !is_empty && of_labels.all(|one| one) && of_fields.all(|one| one)
}

fn requirement_matches(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_one = || value.is_some_and(|value| values.iter().any(|one| one == value));
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let numbers = || Some((number(value)?, number(values.first().map(String::as_str))?));
    match requirement.operator.as_str() {
        "In" => is_one(),
        "NotIn" => !is_one(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(has, than)| has > than),
        "Lt" => numbers().is_some_and(|(has, than)| has < than),
        _ => false,
    }
}
