//! Annotations and labels of KubeEdge that have no effect on this node: they are named in the log and in an event of the pod. Pure.

use k8s_openapi::api::core::v1::Pod;

use crate::hold;

/// The domain of KubeEdge's names.
const DOMAIN: &str = "kubeedge.io";
/// The domains of names that this agent handles, or writes itself.
const HANDLED: &[&str] = &["outrigger.kubeedge.io"];

/// Returns a message for each annotation or label of the pod that an EdgeCore may act on and this agent does not.
pub(crate) fn without_effect(pod: &Pod) -> Vec<String> {
    let annotations = pod
        .metadata
        .annotations
        .iter()
        .flatten()
        .map(|(name, _)| ("annotation", name));
    // other labels only select
    let labels = pod
        .metadata
        .labels
        .iter()
        .flatten()
        .map(|(name, _)| ("label", name));
    let labels = labels.filter(|(_, name)| *name == hold::ANNOTATION);
    let annotations = annotations.filter(|(_, name)| *name != hold::ANNOTATION);
    let unhandled = annotations
        .chain(labels)
        .filter(|(_, name)| is_unhandled(name));
    unhandled
        .map(|(kind, name)| {
            format!(
                "{kind} {name} has no effect on this node: {}",
                consequence(name)
            )
        })
        .collect()
}

fn is_unhandled(name: &str) -> bool {
    let Some((domain, _)) = name.split_once('/') else {
        return false;
    };
    let is_kubeedges = domain == DOMAIN
        || domain
            .strip_suffix(DOMAIN)
            .is_some_and(|rest| rest.ends_with('.'));
    is_kubeedges && !HANDLED.contains(&domain)
}

fn consequence(name: &str) -> &'static str {
    match name {
        hold::ANNOTATION => "only the annotation of this name holds a pod",
        _ => "edge-agent does not know it; remove it, or check its spelling",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_kubeedge_without_effect_are_found_and_no_others() {
        let pod = |metadata| serde_json::from_value::<Pod>(json!({"metadata": metadata})).unwrap();
        let found = |metadata| without_effect(&pod(metadata));
        for metadata in [
            json!({"labels": {"edge.kubeedge.io/hold-upgrade": "true"}}),
            json!({"annotations": {"kubeedge.io/x": ""}}),
            json!({"annotations": {"apps.kubeedge.io/x": "", "example.com/kubeedge.io": ""}}),
        ] {
            assert_eq!(found(metadata.clone()).len(), 1, "{metadata}");
        }
        for metadata in [
            json!({}),
            json!({"annotations": {"edge.kubeedge.io/hold-upgrade": "true"}}),
            json!({"labels": {"apps.kubeedge.io/group": "a"}}),
            json!({"annotations": {"outrigger.kubeedge.io/manifest": "", "notkubeedge.io/x": "", "kubeedge.io": ""}}),
        ] {
            assert_eq!(found(metadata.clone()), Vec::<String>::new(), "{metadata}");
        }
    }
}
