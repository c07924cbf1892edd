//! Parts of a pod's status that other components write in the cloud: conditions, such as those of its readiness gates, and its last phase.
//! Pure.

use serde_json::Value;

/// The conditions that only this node writes. For all others, and for disruptions, the cloud's copy is authoritative.
const OWN_CONDITIONS: [&str; 7] = [
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    "PodResizePending",
    "PodResizeInProgress",
];
/// A condition that both sides write: the node's own value counts once it has one.
const SHARED_CONDITION: &str = "DisruptionTarget";

/// The phases after which a pod does not run again. A pod that others have put into one of them ends on its node.
///
/// Source: the kubelet, `podWorkers.UpdatePod`.
const LAST_PHASES: [&str; 2] = ["Failed", "Succeeded"];

/// Returns our status with the conditions, and the last phase, that others have written in the cloud.
pub(super) fn with_foreign_parts(ours: &Value, clouds: &Value) -> Value {
    let mut status = ours.clone();
    let is_over = |status: &Value| {
        let phase = status["phase"].as_str();
        phase.is_some_and(|phase| LAST_PHASES.contains(&phase))
    };
    if is_over(clouds) && !is_over(&status) {
        for part in ["phase", "reason", "message"] {
            match (clouds.get(part), status.as_object_mut()) {
                (Some(value), Some(status)) => drop(status.insert(part.into(), value.clone())),
                (None, Some(status)) => drop(status.shift_remove(part)),
                (_, None) => {}
            }
        }
    }
    let theirs = clouds
        .get("conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let kind = |condition: &Value| condition["type"].as_str().unwrap_or_default().to_owned();
    for condition in theirs.filter(|condition| !OWN_CONDITIONS.contains(&kind(condition).as_str()))
    {
        let Some(list) = status.get_mut("conditions").and_then(Value::as_array_mut) else {
            continue;
        };
        match list.iter_mut().find(|known| kind(known) == kind(condition)) {
            Some(_) if kind(condition) == SHARED_CONDITION => {}
            Some(known) => known.clone_from(condition),
            None => list.push(condition.clone()),
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn foreign_conditions_come_from_the_cloud_and_own_ones_from_the_node() {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
        let status = |all: &[(&str, &str)]| -> Value {
            let all: Vec<_> = all
                .iter()
                .map(|(kind, status)| condition(kind, status))
                .collect();
            json!({"phase": "Running", "conditions": all})
        };
        let ours = status(&[
            ("Ready", "False"),
            ("gate", "False"),
            ("DisruptionTarget", "True"),
        ]);
        let mut clouds = status(&[
            ("Ready", "True"),
            ("gate", "True"),
            ("other", "True"),
            ("DisruptionTarget", "False"),
        ]);
        clouds["phase"] = json!("Pending");
        let wanted = status(&[
            ("Ready", "False"),
            ("gate", "True"),
            ("DisruptionTarget", "True"),
            ("other", "True"),
        ]);
        assert_eq!(with_foreign_parts(&ours, &clouds), wanted);
        assert_eq!(with_foreign_parts(&ours, &json!({})), ours);
        assert_eq!(
            with_foreign_parts(&json!({"phase": "x"}), &clouds),
            json!({"phase": "x"})
        );
    }

    #[test]
    fn the_last_phase_comes_from_whoever_writes_it_first() {
        let phase = |phase: &str| json!({"phase": phase});
        let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "why"});
        for (ours, clouds, wanted) in [
            (phase("Running"), evicted.clone(), evicted.clone()),
            (phase("Pending"), phase("Succeeded"), phase("Succeeded")),
            (evicted.clone(), phase("Succeeded"), evicted.clone()),
            (phase("Succeeded"), phase("Running"), phase("Succeeded")),
            (phase("Running"), phase("Pending"), phase("Running")),
            (phase("Running"), json!({}), phase("Running")),
            (
                json!({"phase": "Running", "reason": "old"}),
                phase("Failed"),
                phase("Failed"),
            ),
        ] {
            assert_eq!(
                with_foreign_parts(&ours, &clouds),
                wanted,
                "{ours} {clouds}"
            );
        }
    }
}
