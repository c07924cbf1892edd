//! Tests of [`super`].

use serde_json::{Value, json};

use super::*;

fn deployment(status: Value) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "generation": 2},
        "spec": {"replicas": 2, "progressDeadlineSeconds": 60, "selector": {}, "template": {},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}},
        "status": status,
    }))
    .unwrap()
}

fn set(name: &str, wanted: i32, there: i32, available: i32) -> ReplicaSet {
    serde_json::from_value(json!({
        "metadata": {"name": name}, "spec": {"replicas": wanted, "selector": {}},
        "status": {"replicas": there, "readyReplicas": available, "availableReplicas": available},
    }))
    .unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn lines(status: &DeploymentStatus) -> Vec<String> {
    let conditions = status.conditions.iter().flatten();
    conditions
        .map(|condition| {
            format!(
                "{}={} {}",
                condition.type_,
                condition.status,
                condition.reason.as_deref().unwrap()
            )
        })
        .collect()
}

#[test]
fn a_rollout_is_told_from_beginning_to_end() {
    let new = set("web-1", 2, 0, 0);
    let mut deployment = deployment(json!({}));
    let begun = status(&deployment, Some(&new), &[], at(0));
    assert_eq!(
        lines(&begun),
        [
            "Available=False MinimumReplicasUnavailable",
            "Progressing=True NewReplicaSetCreated"
        ]
    );
    assert_eq!(
        deadline_in(&deployment, &begun, at(10)),
        Some(Duration::from_secs(50))
    );
    deployment.status = Some(begun);
    let half = status(&deployment, Some(&set("web-1", 2, 2, 1)), &[], at(5));
    assert_eq!(lines(&half)[1], "Progressing=True ReplicaSetUpdated");
    assert_eq!(
        (
            half.updated_replicas,
            half.ready_replicas,
            half.unavailable_replicas
        ),
        (Some(2), Some(1), Some(1))
    );
    deployment.status = Some(half);
    let done = status(&deployment, Some(&set("web-1", 2, 2, 2)), &[], at(9));
    assert_eq!(
        lines(&done),
        [
            "Available=True MinimumReplicasAvailable",
            "Progressing=True NewReplicaSetAvailable"
        ]
    );
    assert_eq!(deadline_in(&deployment, &done, at(500)), None);
    deployment.status = Some(done.clone());
    assert_eq!(
        status(&deployment, Some(&set("web-1", 2, 2, 2)), &[], at(99)),
        done,
        "nothing to say, nothing written"
    );
}

#[test]
fn no_progress_for_too_long_is_told_and_forgotten_with_progress() {
    let mut deployment = deployment(json!({}));
    deployment.status = Some(status(
        &deployment,
        Some(&set("web-1", 2, 2, 0)),
        &[],
        at(0),
    ));
    let stuck = status(&deployment, Some(&set("web-1", 2, 2, 0)), &[], at(61));
    assert_eq!(
        lines(&stuck)[1],
        "Progressing=False ProgressDeadlineExceeded"
    );
    deployment.status = Some(stuck);
    let moving = status(&deployment, Some(&set("web-1", 2, 2, 1)), &[], at(90));
    assert_eq!(lines(&moving)[1], "Progressing=True ReplicaSetUpdated");
}

#[test]
fn the_next_template_begins_a_rollout_anew() {
    let mut deployment = deployment(json!({}));
    deployment.status = Some(status(
        &deployment,
        Some(&set("web-1", 2, 2, 2)),
        &[],
        at(0),
    ));
    deployment.metadata.generation = Some(3);
    let (new, old) = (set("web-2", 1, 0, 0), set("web-1", 2, 2, 2));
    let begun = status(&deployment, Some(&new), &[&old], at(100));
    assert_eq!(
        lines(&begun),
        [
            "Available=True MinimumReplicasAvailable",
            "Progressing=True ReplicaSetUpdated"
        ]
    );
    assert!(deadline_in(&deployment, &begun, at(100)).is_some());
}

#[test]
fn a_paused_deployment_has_no_deadline() {
    let mut deployment = deployment(json!({}));
    deployment.spec.as_mut().unwrap().paused = Some(true);
    let paused = status(&deployment, None, &[], at(0));
    assert_eq!(lines(&paused)[1], "Progressing=Unknown DeploymentPaused");
    assert_eq!(deadline_in(&deployment, &paused, at(900)), None);
}
