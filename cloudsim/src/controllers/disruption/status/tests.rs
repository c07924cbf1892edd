//! Tests of [`super`].

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::*;
use crate::controllers::workloads::pod_states::any_state;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn budget(spec: &Value, status: &Value) -> PodDisruptionBudget {
    let metadata = json!({"name": "b", "generation": 3});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
}

fn pod(name: &str, state: &str) -> Arc<Pod> {
    let mut pod = json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"containers": []}, "status": {"phase": "Running"}});
    if state != "unready" {
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    }
    if state == "deleting" {
        pod["metadata"]["deletionTimestamp"] = json!("2025-06-01T00:00:00Z");
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

#[test]
fn so_many_may_go_as_are_more_than_needed() {
    // columns: the budget's field, the expected pods, the states of the pods; desired, healthy, allowed
    for (spec, expected, states, numbers) in [
        (
            json!({"minAvailable": 1}),
            3,
            vec!["ok", "ok", "ok"],
            (1, 3, 2),
        ),
        (
            json!({"minAvailable": 3}),
            3,
            vec!["ok", "ok", "ok"],
            (3, 3, 0),
        ),
        (
            json!({"minAvailable": 2}),
            3,
            vec!["ok", "unready", "deleting"],
            (2, 1, 0),
        ),
        (json!({"minAvailable": "50%"}), 5, vec!["ok"; 5], (3, 5, 2)),
        (json!({"minAvailable": "100%"}), 2, vec!["ok"; 2], (2, 2, 0)),
        (json!({"maxUnavailable": 1}), 3, vec!["ok"; 3], (2, 3, 1)),
        (json!({"maxUnavailable": 0}), 3, vec!["ok"; 3], (3, 3, 0)),
        (json!({"maxUnavailable": 9}), 3, vec!["ok"; 3], (0, 3, 3)),
        (
            json!({"maxUnavailable": "30%"}),
            5,
            vec!["ok"; 5],
            (3, 5, 2),
        ),
        (json!({"maxUnavailable": 1}), 3, vec!["ok"; 2], (2, 2, 0)),
        (json!({"minAvailable": 0}), 0, vec![], (0, 0, 0)),
    ] {
        let pods: Vec<_> = states
            .iter()
            .enumerate()
            .map(|(number, state)| pod(&number.to_string(), state))
            .collect();
        let (status, _) = status(
            &budget(&spec, &json!(null)),
            &pods,
            Expected(expected),
            at("2025-06-01T00:00:00Z"),
        );
        let found = (
            status.desired_healthy,
            status.current_healthy,
            status.disruptions_allowed,
        );
        assert_eq!(found, numbers, "{spec} {states:?}");
        assert_eq!(
            (status.expected_pods, status.observed_generation),
            (expected, Some(3))
        );
        let condition = &status.conditions.unwrap()[0];
        let reason = if numbers.2 > 0 {
            "SufficientPods"
        } else {
            "InsufficientPods"
        };
        assert_eq!(
            (condition.type_.as_str(), condition.reason.as_str()),
            ("DisruptionAllowed", reason)
        );
    }
}

#[test]
fn an_evicted_pod_counts_as_gone_until_it_is_or_should_have_been() {
    let disrupted = json!({"disruptedPods": {"0": "2025-06-01T00:00:00Z", "gone": "2025-06-01T00:00:00Z"},
        "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "disruptionsAllowed": 0});
    let budget = budget(&json!({"minAvailable": 1}), &disrupted);
    let pods = [pod("0", "ok"), pod("1", "ok")];
    let (soon, again) = status(&budget, &pods, Expected(2), at("2025-06-01T00:01:50Z"));
    assert_eq!((soon.current_healthy, soon.disruptions_allowed), (1, 0));
    assert_eq!(
        soon.disrupted_pods.unwrap().keys().collect::<Vec<_>>(),
        ["0"]
    );
    assert_eq!(again, Some(Duration::from_millis(10_100)));
    let (late, again) = status(&budget, &pods, Expected(2), at("2025-06-01T00:02:00Z"));
    assert_eq!(
        (
            late.current_healthy,
            late.disruptions_allowed,
            late.disrupted_pods,
            again
        ),
        (2, 1, None, None)
    );
}

#[test]
fn what_is_not_known_lets_none_go() {
    let before = json!({"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "disruptionsAllowed": 1});
    let status = failed_status(
        &budget(&json!({"maxUnavailable": 1}), &before),
        "no scale",
        at("2025-06-01T00:00:00Z"),
    );
    assert_eq!((status.current_healthy, status.disruptions_allowed), (2, 0));
    let condition = &status.conditions.unwrap()[0];
    assert_eq!(
        (condition.reason.as_str(), condition.message.as_str()),
        ("SyncFailed", "no scale")
    );
}

#[test]
fn a_selector_that_is_empty_selects_all_and_none_selects_none() {
    for (spec, selected) in [
        (json!({"selector": {"matchLabels": {"app": "web"}}}), true),
        (json!({"selector": {"matchLabels": {"app": "db"}}}), false),
        (json!({"selector": {}}), true),
        (json!({}), false),
    ] {
        assert_eq!(
            selects(&budget(&spec, &json!(null)), &pod("0", "ok")),
            selected,
            "{spec}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The desired number is computed here as the budget's text says: percentages are rounded up.
    #[test]
    fn as_many_evictions_as_are_allowed_leave_the_promised_pods(
        states in vec(any_state(), 0..9),
        spec in prop_oneof![
            (0..9).prop_map(|number| json!({"minAvailable": number})),
            (0..=100).prop_map(|percent| json!({"minAvailable": format!("{percent}%")})),
            (0..9).prop_map(|number| json!({"maxUnavailable": number})),
            (0..=100).prop_map(|percent| json!({"maxUnavailable": format!("{percent}%")})),
        ],
        (expected, evicted) in (0..9_i32, vec(0..9_usize, 0..3)),
    ) {
        let pods: Vec<_> = states.iter().enumerate().filter_map(|(number, state)| state.pod(&number.to_string(), "n", "r")).collect();
        let disrupted: BTreeMap<_, _> = evicted.iter().map(|number| (number.to_string(), "2025-06-15T15:06:00Z")).collect();
        let (status, _) = status(&budget(&spec, &json!({"disruptedPods": disrupted})), &pods, Expected(expected), at("2025-06-15T15:06:40Z"));
        let percent = |value: &Value| match value.as_str() {
            Some(text) => (expected * text.trim_end_matches('%').parse::<i32>().unwrap() + 99) / 100,
            None => i32::try_from(value.as_i64().unwrap()).unwrap(),
        };
        let desired = match (spec.get("minAvailable"), spec.get("maxUnavailable")) {
            (Some(least), _) => percent(least),
            (_, most) => expected - percent(most.unwrap()),
        };
        // a pod whose eviction was allowed counts as gone
        let healthy = pods.iter().filter(|pod| is_ready(pod) && is_active(pod) && !disrupted.contains_key(&pod.name_any()));
        let left = i32::try_from(healthy.count()).unwrap() - status.disruptions_allowed;
        prop_assert!(status.disruptions_allowed == 0 || left >= desired, "{status:?}");
    }
}
