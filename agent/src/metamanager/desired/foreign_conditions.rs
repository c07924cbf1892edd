//! Conditions of a pod that other components write in the cloud, such as those of its readiness gates. Pure.

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

/// Returns our status with the conditions that others have written in the cloud.
pub(super) fn with_foreign_conditions(ours: &Value, clouds: &Value) -> Value {
    let mut status = ours.clone();
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
        assert_eq!(with_foreign_conditions(&ours, &clouds), wanted);
        assert_eq!(with_foreign_conditions(&ours, &json!({})), ours);
        assert_eq!(
            with_foreign_conditions(&json!({"phase": "x"}), &clouds),
            json!({"phase": "x"})
        );
    }
}
