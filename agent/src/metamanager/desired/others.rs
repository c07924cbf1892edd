//! What others say of a pod in the cloud: conditions that are not the kubelet's, such as those of its readiness gates. Pure.

use serde_json::Value;

/// The conditions that this node alone says. All others, and who disrupts a pod, are known best where they were said last: in the
/// cloud.
const OURS: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
/// The node's own word counts, once it has been said.
const SHARED: &str = "DisruptionTarget";

/// Our status, with what the cloud has of others.
pub(super) fn with_others(ours: &Value, clouds: &Value) -> Value {
    let mut status = ours.clone();
    let theirs = clouds.get("conditions").and_then(Value::as_array).into_iter().flatten();
    let kind = |condition: &Value| condition["type"].as_str().unwrap_or_default().to_owned();
    for condition in theirs.filter(|condition| !OURS.contains(&kind(condition).as_str())) {
        let Some(list) = status.get_mut("conditions").and_then(Value::as_array_mut) else { continue };
        match list.iter_mut().find(|known| kind(known) == kind(condition)) {
            Some(_) if kind(condition) == SHARED => {}
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
    fn others_speak_for_themselves_and_the_node_for_itself() {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
        let status = |all: &[(&str, &str)]| -> Value {
            let all: Vec<_> = all.iter().map(|(kind, status)| condition(kind, status)).collect();
            json!({"phase": "Running", "conditions": all})
        };
        let ours = status(&[("Ready", "False"), ("gate", "False"), ("DisruptionTarget", "True")]);
        let mut clouds =
            status(&[("Ready", "True"), ("gate", "True"), ("other", "True"), ("DisruptionTarget", "False")]);
        clouds["phase"] = json!("Pending");
        let wanted =
            status(&[("Ready", "False"), ("gate", "True"), ("DisruptionTarget", "True"), ("other", "True")]);
        assert_eq!(with_others(&ours, &clouds), wanted);
        assert_eq!(with_others(&ours, &json!({})), ours);
        assert_eq!(with_others(&json!({"phase": "x"}), &clouds), json!({"phase": "x"}));
    }
}
