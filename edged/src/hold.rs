//! Pods that wait until somebody on the node releases them: those with the annotation `edge.kubeedge.io/hold-upgrade: "true"`, before their
//! first start. Pure.
//!
//! With it in the template of a workload, an update starts no new pod on the node before a release. The decision is in the pod's status, as
//! the condition `HeldUpgrade`, so that it survives restarts of the agent. Source: KubeEdge 1.22, `holdUpgrade` in
//! `edge/pkg/edged/edged.go`. Difference: releasing a pod touches no other one.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};

use crate::timestamps;

/// The annotation.
pub(crate) const ANNOTATION: &str = "edge.kubeedge.io/hold-upgrade";
/// The type of the condition.
pub const CONDITION: &str = "HeldUpgrade";

/// Reports whether a pod must not start yet.
pub fn is_held(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let is_release = |one: &PodCondition| one.type_ == CONDITION && one.status == "False";
    let is_released = conditions.into_iter().flatten().any(is_release);
    let has_begun = status.is_some_and(|status| status.start_time.is_some());
    asks_to_be_held(pod) && pod.metadata.deletion_timestamp.is_none() && !is_released && !has_begun
}

/// Reports whether a pod has the annotation.
pub fn asks_to_be_held(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.get(ANNOTATION).is_some_and(|value| value == "true"))
}

/// Returns the conditions of a pod that is held, or that was released.
pub fn conditions(pod: &Pod, held: bool, now: Timestamp) -> Vec<PodCondition> {
    let status = pod.status.as_ref();
    let mut all = status
        .and_then(|status| status.conditions.clone())
        .unwrap_or_default();
    let value = if held { "True" } else { "False" };
    if all
        .iter()
        .any(|one| one.type_ == CONDITION && one.status == value)
    {
        return all;
    }
    all.retain(|one| one.type_ != CONDITION);
    let (reason, message) = match held {
        true => (
            "HoldUpgradeEnabled",
            "Upgrade is currently held due to edge-hold-upgrade annotation",
        ),
        false => ("Released", "The pod was released on the node"),
    };
    all.push(PodCondition {
        type_: CONDITION.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(timestamps::to_api(now)),
        ..PodCondition::default()
    });
    all
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(annotation: &str, status: Value) -> Pod {
        let metadata = json!({"name": "a", "annotations": {ANNOTATION: annotation}});
        serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
    }

    #[test]
    fn a_pod_is_held_before_its_first_start_until_it_is_released() {
        let condition =
            |status: &str| json!({"conditions": [{"type": "HeldUpgrade", "status": status}]});
        for (annotation, status, held) in [
            ("true", json!({}), true),
            ("true", json!({"phase": "Pending"}), true),
            ("true", condition("True"), true),
            ("true", condition("False"), false),
            ("true", json!({"startTime": "2026-01-01T00:00:00Z"}), false),
            ("false", json!({}), false),
            ("", json!({}), false),
        ] {
            assert_eq!(
                is_held(&pod(annotation, status.clone())),
                held,
                "{annotation} {status}"
            );
        }
        assert!(!is_held(&Pod::default()));
        let mut deleted = pod("true", json!({}));
        deleted.metadata.deletion_timestamp = Some(timestamps::to_api(Timestamp::UNIX_EPOCH));
        assert!(!is_held(&deleted));
    }

    #[test]
    fn the_condition_is_written_once_and_others_stay() {
        let other = json!({"conditions": [{"type": "example.com/x", "status": "True"}]});
        let mut held = pod("true", other);
        let all = conditions(&held, true, Timestamp::UNIX_EPOCH);
        let types: Vec<&str> = all.iter().map(|one| one.type_.as_str()).collect();
        assert_eq!(types, ["example.com/x", "HeldUpgrade"]);
        assert_eq!(all[1].reason.as_deref(), Some("HoldUpgradeEnabled"));
        held.status.as_mut().unwrap().conditions = Some(all.clone());
        assert_eq!(conditions(&held, true, Timestamp::MAX), all);
        let released = conditions(&held, false, Timestamp::MAX);
        held.status.as_mut().unwrap().conditions = Some(released);
        assert!(!is_held(&held) && asks_to_be_held(&held));
    }
}
