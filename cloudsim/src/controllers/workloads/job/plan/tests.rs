//! Tests of [`super`].

use serde_json::{Value, json};

use super::*;

fn job(spec: Value) -> Job {
    let mut job = json!({"metadata": {"name": "pi", "namespace": "n", "uid": "1"},
        "spec": {"template": {"spec": {"containers": [{"name": "a"}], "restartPolicy": "Never"}}},
        "status": {"startTime": "2025-06-01T00:00:00Z"}});
    for (key, value) in spec.as_object().unwrap() {
        job["spec"][key] = value.clone();
    }
    serde_json::from_value(job).unwrap()
}

fn pod_in(name: &str, phase: &str, code: i32) -> Arc<Pod> {
    Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "annotations": {INDEX: name}}, "spec": {"containers": []},
        "status": {"phase": phase, "containerStatuses": [{"name": "a", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": code, "finishedAt": "2025-06-01T00:00:00Z"}}}]}})).unwrap())
}

fn at(second: i64) -> Timestamp {
    "2025-06-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(second)
}

fn failed(plan: &Plan) -> &str {
    match &plan.outcome {
        Some(Outcome::Failed { reason, .. }) => reason,
        _ => "",
    }
}

#[test]
fn as_many_pods_run_as_are_left_to_do() {
    let running =
        |count| (0..count).map(|index| pod_in(&index.to_string(), "Running", 0)).collect::<Vec<_>>();
    for (spec, pods, tally, create, delete) in [
        (json!({"completions": 1}), 0, (0, 0), 1, 0),
        (json!({"completions": 5, "parallelism": 2}), 0, (0, 0), 2, 0),
        (json!({"completions": 5, "parallelism": 2}), 1, (1, 0), 1, 0),
        (json!({"completions": 5, "parallelism": 2}), 1, (4, 0), 0, 0),
        (json!({"completions": 5, "parallelism": 2}), 3, (0, 0), 0, 1),
        (json!({"parallelism": 3}), 1, (1, 0), 0, 1),
        (json!({"completions": 2, "suspend": true}), 1, (0, 0), 0, 1),
    ] {
        let plan = plan(&job(spec.clone()), &running(pods), tally, at(100));
        assert_eq!((plan.create.len(), plan.delete.len()), (create, delete), "{spec} {pods} {tally:?}");
    }
}

#[test]
fn a_job_ends_well_or_for_a_reason() {
    let spec = |spec: Value| job(spec);
    assert_eq!(plan(&spec(json!({"completions": 2})), &[], (2, 0), at(1)).outcome, Some(Outcome::Complete));
    assert_eq!(plan(&spec(json!({"parallelism": 2})), &[], (1, 0), at(1)).outcome, Some(Outcome::Complete));
    assert_eq!(plan(&spec(json!({"completions": 2})), &[], (1, 0), at(1)).outcome, None);
    assert_eq!(
        failed(&plan(&spec(json!({"completions": 1, "backoffLimit": 1})), &[], (0, 2), at(1))),
        "BackoffLimitExceeded"
    );
    let late = spec(json!({"completions": 1, "activeDeadlineSeconds": 60}));
    assert_eq!(failed(&plan(&late, &[], (0, 0), at(60))), "DeadlineExceeded");
    assert_eq!(
        plan(&late, &[pod_in("0", "Running", 0)], (0, 0), at(50)).look_again,
        Some(Duration::from_secs(10))
    );
}

#[test]
fn the_policy_knows_failures_that_end_it_and_failures_that_do_not_count() {
    let rule =
        |action| json!({"rules": [{"action": action, "onExitCodes": {"operator": "In", "values": [42]}}]});
    let with = |action| job(json!({"completions": 1, "backoffLimit": 0, "podFailurePolicy": rule(action)}));
    let pods = [pod_in("0", "Failed", 42)];
    assert_eq!(failed(&plan(&with("FailJob"), &pods, (0, 1), at(99))), "PodFailurePolicy");
    assert_eq!(plan(&with("Ignore"), &pods, (0, 1), at(99)).outcome, None);
    assert_eq!(
        failed(&plan(&with("FailJob"), &[pod_in("0", "Failed", 1)], (0, 1), at(99))),
        "BackoffLimitExceeded"
    );
    assert_eq!(failed(&plan(&with("Count"), &pods, (0, 1), at(99))), "BackoffLimitExceeded");
    let Some(Outcome::Failed { message, .. }) = plan(&with("FailJob"), &pods, (0, 1), at(99)).outcome else {
        panic!("it fails")
    };
    assert_eq!(message, "Container a for pod /0 failed with exit code 42 matching FailJob rule at index 0");
}

#[test]
fn the_policy_knows_conditions_and_its_first_rule_counts() {
    let disrupted = {
        let mut pod = (*pod_in("0", "Failed", 137)).clone();
        let conditions = json!([{"type": "DisruptionTarget", "status": "True"}]);
        pod.status.as_mut().unwrap().conditions = serde_json::from_value(conditions).unwrap();
        [Arc::new(pod)]
    };
    let by_condition = |action| json!({"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
    let others = json!({"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1]}});
    let with = |rules: Value| {
        let policy = json!({"rules": rules});
        plan(
            &job(json!({"completions": 1, "backoffLimit": 0, "podFailurePolicy": policy})),
            &disrupted,
            (0, 1),
            at(99),
        )
    };
    assert_eq!(with(json!([by_condition("Ignore"), others])).outcome, None);
    assert_eq!(failed(&with(json!([others, by_condition("Ignore")]))), "PodFailurePolicy");
    let Some(Outcome::Failed { message, .. }) = with(json!([by_condition("FailJob")])).outcome else {
        panic!("it fails")
    };
    assert_eq!(message, "Pod /0 has condition DisruptionTarget matching FailJob rule at index 0");
}

#[test]
fn a_pod_that_ends_is_replaced_at_once_or_when_it_has_failed() {
    let mut ending = (*pod_in("0", "Running", 0)).clone();
    ending.metadata.deletion_timestamp = serde_json::from_value(json!("2025-06-01T00:00:00Z")).unwrap();
    for (policy, created) in [("TerminatingOrFailed", 1), ("Failed", 0)] {
        let job = job(json!({"completions": 1, "podReplacementPolicy": policy}));
        assert_eq!(plan(&job, &[Arc::new(ending.clone())], (0, 0), at(99)).create.len(), created, "{policy}");
    }
}

#[test]
fn after_a_failure_the_next_pod_waits_twice_as_long() {
    let job = job(json!({"completions": 1}));
    let pods = [pod_in("0", "Failed", 1)];
    assert_eq!(plan(&job, &pods, (0, 1), at(4)).look_again, Some(Duration::from_secs(6)));
    assert_eq!(plan(&job, &pods, (0, 2), at(4)).look_again, Some(Duration::from_secs(16)));
    assert_eq!(plan(&job, &pods, (0, 1), at(10)).create.len(), 1);
}

#[test]
fn numbers_that_are_done_are_not_done_again() {
    let job = job(json!({"completions": 5, "parallelism": 3, "completionMode": "Indexed"}));
    let pods = [pod_in("0", "Succeeded", 0), pod_in("1", "Succeeded", 0), pod_in("3", "Running", 0)];
    let plan = plan(&job, &pods, (2, 0), at(99));
    assert_eq!((plan.create, plan.completed.as_str()), (vec![Some(2), Some(4)], "0-1"));
    let pod = pod(&job, Some(2));
    assert_eq!(pod.metadata.generate_name.as_deref(), Some("pi-2-"));
    assert_eq!(pod.spec.unwrap().containers[0].env.as_ref().unwrap()[0].name, "JOB_COMPLETION_INDEX");
}
