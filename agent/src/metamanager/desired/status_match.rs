//! Compares a status that the cloud has with the one of this node. Pure.

use serde_json::Value;

/// Reports whether `clouds` agrees with `ours` in phase, addresses, readiness of containers, and each of our conditions.
/// Conditions that only the cloud has belong to others, and different times are no reason to report again.
pub(in crate::metamanager) fn status_agrees(ours: &Value, clouds: &Value) -> bool {
    let same = |field: &str| ours.get(field).is_none() || ours.get(field) == clouds.get(field);
    let conditions = |status: &Value| -> Vec<(String, String)> {
        let text = |condition: &Value, field: &str| {
            condition[field].as_str().unwrap_or_default().to_owned()
        };
        let list = status
            .get("conditions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        list.map(|condition| (text(condition, "type"), text(condition, "status")))
            .collect()
    };
    let containers = |status: &Value| -> Vec<(Value, Value, Value)> {
        let list = status
            .get("containerStatuses")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        list.map(|status| {
            (
                status["name"].clone(),
                status["ready"].clone(),
                status["containerID"].clone(),
            )
        })
        .collect()
    };
    let theirs = conditions(clouds);
    same("phase")
        && same("podIP")
        && containers(ours) == containers(clouds)
        && conditions(ours)
            .iter()
            .all(|condition| theirs.contains(condition))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_relevant_status_fields_are_compared() {
        let ours = json!({
            "phase": "Running", "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "a"}],
            "containerStatuses": [{"name": "c", "ready": true, "containerID": "x"}],
        });
        let with = |field: &str, value: Value| {
            let mut clouds = ours.clone();
            clouds[field] = value;
            clouds
        };
        assert!(status_agrees(&ours, &ours));
        assert!(status_agrees(
            &ours,
            &with(
                "conditions",
                json!([{"type": "Ready", "status": "True"}, {"type": "Foreign", "status": "False"}])
            )
        ));
        assert!(status_agrees(&ours, &with("qosClass", json!("Burstable"))));
        assert!(!status_agrees(&ours, &with("phase", json!("Pending"))));
        assert!(!status_agrees(
            &ours,
            &with("conditions", json!([{"type": "Ready", "status": "False"}]))
        ));
        assert!(!status_agrees(&ours, &with("containerStatuses", json!([]))));
        assert!(!status_agrees(&ours, &Value::Null));
        assert!(
            status_agrees(&Value::Null, &ours.clone())
                == ours["containerStatuses"].as_array().unwrap().is_empty()
        );
    }
}
