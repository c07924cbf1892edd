//! Tests of [`super`].

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use proptest::{collection::vec, prelude::*};
use serde_json::json;

use super::*;
use crate::controllers::workloads::{
    pod_states::{PodState, any_state, counts, remaining_pods},
    pods::{deletion_rank, is_active},
};

fn set(name: &str, wanted: i32, available: i32) -> Set {
    Set {
        name: name.into(),
        wanted,
        there: wanted,
        available,
        ..Set::default()
    }
}

fn limits(desired: i32, surge: i32, unavailable: i32) -> Limits {
    Limits {
        desired,
        surge,
        unavailable,
    }
}

fn of(spec: serde_json::Value) -> Limits {
    let spec = json!({"selector": {}, "template": {}, "replicas": spec["replicas"], "strategy": spec["strategy"]});
    Limits::of(&serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap())
}

#[test]
fn percentages_are_rounded_to_the_safe_side() {
    let rolling = |surge, unavailable| json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
    assert_eq!(
        of(json!({"replicas": 10, "strategy": rolling("25%", "25%")})),
        limits(10, 3, 2)
    );
    assert_eq!(
        of(json!({"replicas": 1, "strategy": rolling("25%", "25%")})),
        limits(1, 1, 0)
    );
    assert_eq!(
        of(json!({"replicas": 3, "strategy": rolling("0%", "10%")})),
        limits(3, 0, 1),
        "something must move"
    );
    assert_eq!(
        of(json!({"replicas": 3, "strategy": {"type": "Recreate"}})),
        limits(3, 0, 3)
    );
}

#[test]
fn a_rolling_update_goes_step_by_step() {
    let limits = limits(4, 1, 1);
    let one = |name: &str, number| Some(vec![(name.to_owned(), number)]);
    let cases = [
        // room for the surge first
        (set("new", 0, 0), vec![set("old", 4, 4)], one("new", 1)),
        (set("new", 1, 0), vec![set("old", 4, 4)], one("old", 3)),
        (set("new", 1, 0), vec![set("old", 3, 3)], one("new", 2)),
        // nothing more until one of the new ones is available
        (set("new", 2, 0), vec![set("old", 3, 3)], None),
        (set("new", 2, 1), vec![set("old", 3, 3)], one("old", 2)),
        (set("new", 4, 4), vec![set("old", 0, 0)], None),
        // the old ones that are not available go first
        (
            set("new", 1, 0),
            vec![set("broken", 2, 0), set("old", 2, 2)],
            one("broken", 1),
        ),
        (set("new", 6, 6), vec![], one("new", 4)),
    ];
    for (new, old, expected) in cases {
        assert_eq!(rolling(limits, &new, &old), expected, "{new:?} {old:?}");
    }
}

#[test]
fn every_rolling_update_ends_and_never_breaks_its_limits() {
    for desired in 1..12 {
        for (surge, unavailable) in [(1, 0), (0, 1), (3, 2), (12, 12)] {
            let limits = limits(desired, surge, unavailable);
            let (mut new, mut old) = (set("new", 0, 0), set("old", desired, desired));
            let mut steps = 0;
            while (new.available, old.wanted) != (desired, 0) {
                for (name, wanted) in
                    rolling(limits, &new, std::slice::from_ref(&old)).unwrap_or_default()
                {
                    let set = if name == "new" { &mut new } else { &mut old };
                    set.wanted = wanted;
                    set.available = set.available.min(wanted);
                }
                assert!(new.wanted + old.wanted <= limits.maximum(), "{limits:?}");
                assert!(
                    new.available + old.available >= desired - unavailable,
                    "{limits:?}"
                );
                new.available = (new.available + 1).min(new.wanted);
                steps += 1;
                assert!(steps < 100, "{limits:?} {new:?} {old:?}");
            }
        }
    }
}

#[test]
fn a_deployment_that_is_scaled_gives_each_set_its_share() {
    let with = |name: &str, wanted, maximum, desired| Set {
        maximum: Some(maximum),
        desired: Some(desired),
        ..set(name, wanted, wanted)
    };
    assert_eq!(
        proportional(limits(10, 3, 2), &[with("a", 10, 13, 10)]),
        None
    );
    assert_eq!(
        proportional(limits(5, 2, 1), &[with("a", 10, 13, 10)]),
        Some(vec![("a".into(), 5)])
    );
    let shares = proportional(
        limits(20, 5, 5),
        &[with("new", 3, 13, 10), with("old", 10, 13, 10)],
    )
    .unwrap();
    assert_eq!(shares.iter().map(|(_, number)| number).sum::<i32>(), 25);
    assert_eq!(shares, [("old".to_owned(), 19), ("new".to_owned(), 6)]);
    let none = proportional(
        limits(0, 0, 0),
        &[with("new", 3, 13, 10), with("old", 10, 13, 10)],
    )
    .unwrap();
    assert!(none.iter().all(|(_, number)| *number == 0), "{none:?}");
}

/// A replica set and its active pods: `wanted` of those that it had when its status was written, after its controller deleted the others.
fn replica_set(name: &str, states: &[PodState], wanted: usize) -> (Set, Vec<Arc<Pod>>) {
    let pods = states.iter().enumerate();
    let pods = pods.filter_map(|(number, state)| state.pod(&format!("{name}-{number}"), "n", name));
    let pods: Vec<_> = pods.filter(|pod| is_active(pod)).collect();
    let available = pods.iter().filter(|pod| counts(pod)).count();
    let set = json!({"metadata": {"name": name}, "spec": {"replicas": wanted, "selector": {}},
        "status": {"replicas": pods.len(), "availableReplicas": available}});
    (
        Set::of(&serde_json::from_value(set).unwrap()),
        scale_down(pods, wanted),
    )
}

/// Returns the pods that are left when the replica set's controller scales them down.
fn scale_down(mut pods: Vec<Arc<Pod>>, wanted: usize) -> Vec<Arc<Pod>> {
    pods.sort_by_cached_key(|pod| deletion_rank(pod));
    pods.split_off(pods.len().saturating_sub(wanted))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Also if a replica set's status is older than its last scaling.
    #[test]
    fn no_step_of_a_rollout_leaves_fewer_pods_available_than_promised(
        sets in vec((vec(any_state(), 0..7), 0..7_usize), 1..4),
        (desired, surge, unavailable) in (1..7_i32, 0..3_i32, 0..4_i32),
    ) {
        let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
        let limits = limits(desired, surge, unavailable.min(desired));
        let mut sets: Vec<_> = sets.iter().enumerate()
            .map(|(number, (states, wanted))| replica_set(&format!("s{number}"), states, *wanted)).collect();
        let (new, old): (Set, Vec<Set>) = (sets[0].0.clone(), sets[1..].iter().map(|(set, _)| set.clone()).collect());
        let available = |sets: &[(Set, Vec<Arc<Pod>>)]| sets.iter().map(|(_, pods)| remaining_pods(pods, &[]).len()).sum::<usize>();
        let before = available(&sets);
        let scalings = rolling(limits, &new, &old).unwrap_or_default();
        for (name, wanted) in &scalings {
            let (_, pods) = sets.iter_mut().find(|(set, _)| set.name == *name).unwrap();
            *pods = scale_down(pods.clone(), usize::try_from(*wanted).unwrap());
        }
        let promised = usize::try_from(limits.desired - limits.unavailable).unwrap();
        prop_assert!(available(&sets) >= promised.min(before), "{scalings:?} {before}");
    }
}
