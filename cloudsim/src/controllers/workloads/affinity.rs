//! Whether a pod may be on a node: selectors, affinity, taints. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};
use kube::ResourceExt;

/// Reports whether the node matches the pod's `nodeSelector` and required node affinity.
pub(crate) fn matches_node(spec: &PodSpec, node: &Node) -> bool {
    let mut selector = spec.node_selector.iter().flatten();
    if !selector.all(|(key, value)| node.labels().get(key) == Some(value)) {
        return false;
    }
    node_requirement(spec).is_none_or(|required| selects(required, node))
}

fn node_requirement(spec: &PodSpec) -> Option<&NodeSelector> {
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref()
}

/// Returns the names of the only nodes that the required node affinity can match, as kube-scheduler's `NodeAffinity` does before it looks
/// at nodes; `None` if it does not name them.
pub(crate) fn only_names(spec: &PodSpec) -> Option<BTreeSet<&str>> {
    let mut names = BTreeSet::new();
    for term in &node_requirement(spec)?.node_selector_terms {
        let mut fields = term.match_fields.iter().flatten();
        let named = fields.find(|field| field.key == "metadata.name" && field.operator == "In")?;
        names.extend(named.values.iter().flatten().map(String::as_str));
    }
    Some(names)
}

/// Reports whether one of the selector's terms matches the node.
pub(crate) fn selects(selector: &NodeSelector, node: &Node) -> bool {
    selector
        .node_selector_terms
        .iter()
        .any(|term| matches(term, node))
}

/// Reports whether all requirements of a term match; an empty term matches nothing.
pub(crate) fn matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let label = |requirement: &&NodeSelectorRequirement| {
        fits(
            requirement,
            node.labels().get(&requirement.key).map(String::as_str),
        )
    };
    let field = |requirement: &&NodeSelectorRequirement| {
        let name = node.metadata.name.as_deref();
        fits(
            requirement,
            name.filter(|_| requirement.key == "metadata.name"),
        )
    };
    expressions.iter().all(|requirement| label(&requirement))
        && fields.iter().all(|requirement| field(&requirement))
}

fn fits(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let among = || value.is_some_and(|value| values.iter().any(|wanted| wanted == value));
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let bound = || number(values.first().map(String::as_str));
    match requirement.operator.as_str() {
        "In" => among(),
        "NotIn" => !among(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => matches!((number(value), bound()), (Some(value), Some(bound)) if value > bound),
        "Lt" => matches!((number(value), bound()), (Some(value), Some(bound)) if value < bound),
        _ => false,
    }
}

/// Reports whether the toleration tolerates the taint.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let exists = toleration.operator.as_deref() == Some("Exists");
    let key = toleration.key.as_deref().unwrap_or_default();
    let same_key = if key.is_empty() {
        exists
    } else {
        key == taint.key
    };
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let value = toleration.value.as_deref().unwrap_or_default();
    same_key
        && (effect.is_empty() || effect == taint.effect)
        && (exists || value == taint.value.as_deref().unwrap_or_default())
}

/// Returns the node's taints with one of these effects that are not tolerated.
pub(crate) fn untolerated_taints<'a>(
    tolerations: &'a [Toleration],
    node: &'a Node,
    effects: &'a [&str],
) -> impl Iterator<Item = &'a Taint> {
    let taints = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten());
    taints
        .filter(|taint| effects.contains(&taint.effect.as_str()))
        .filter(|taint| {
            !tolerations
                .iter()
                .any(|toleration| tolerates(toleration, taint))
        })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node() -> Node {
        serde_json::from_value(
            json!({"metadata": {"name": "edge-1", "labels": {"zone": "a", "cores": "4"}}, "spec": {"taints": [
            {"key": "gpu", "effect": "NoSchedule"}, {"key": "off", "effect": "NoExecute"}]}}),
        )
        .unwrap()
    }

    fn spec(term: Value) -> PodSpec {
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
        serde_json::from_value(json!({"containers": [], "affinity": affinity})).unwrap()
    }

    #[test]
    fn affinity_terms_match_labels_and_the_name() {
        let expression = |key, operator, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (term, expected) in [
            (expression("zone", "In", &["a", "b"]), true),
            (expression("zone", "NotIn", &["a"]), false),
            (expression("disk", "NotIn", &["a"]), true),
            (expression("zone", "Exists", &[]), true),
            (expression("disk", "DoesNotExist", &[]), true),
            (expression("cores", "Gt", &["3"]), true),
            (expression("cores", "Lt", &["4"]), false),
            (
                json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["edge-1"]}]}),
                true,
            ),
            (
                json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["edge-2"]}]}),
                false,
            ),
            (json!({}), false),
        ] {
            assert_eq!(
                matches_node(&spec(term.clone()), &node()),
                expected,
                "{term}"
            );
        }
    }

    #[test]
    fn names_of_nodes_are_known_if_each_term_has_them() {
        let names = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]});
        let other = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["c"]}],
            "matchExpressions": [{"key": "zone", "operator": "Exists"}]});
        let not = json!({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]});
        let label = json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]});
        for (terms, expected) in [
            (json!([names]), Some(vec!["a", "b"])),
            (json!([names, other]), Some(vec!["a", "b", "c"])),
            (json!([names, label]), None),
            (json!([not]), None),
        ] {
            let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
            let spec: PodSpec =
                serde_json::from_value(json!({"containers": [], "affinity": affinity})).unwrap();
            let found = only_names(&spec).map(|names| names.into_iter().collect::<Vec<_>>());
            assert_eq!(found, expected, "{terms}");
        }
        assert_eq!(only_names(&PodSpec::default()), None);
    }

    #[test]
    fn taints_are_tolerated_by_key_value_and_effect() {
        let node = node();
        let left = |tolerations: Value| {
            let tolerations: Vec<Toleration> = serde_json::from_value(tolerations).unwrap();
            untolerated_taints(&tolerations, &node, &["NoSchedule", "NoExecute"])
                .map(|taint| taint.key.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(left(json!([])), ["gpu", "off"]);
        assert_eq!(left(json!([{"key": "gpu", "operator": "Exists"}])), ["off"]);
        assert_eq!(
            left(json!([{"operator": "Exists", "effect": "NoExecute"}])),
            ["gpu"]
        );
        assert!(left(json!([{"operator": "Exists"}])).is_empty());
    }
}
