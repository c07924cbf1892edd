//! Tests of [`super`].

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::*;
use crate::controllers::workloads::pod_states::{self, MIN_READY, any_state, remaining_pods};

fn set(replicas: i32, change: Value) -> StatefulSet {
    let mut set = json!({"metadata": {"name": "db", "namespace": "n", "uid": "1"}, "spec": {"replicas": replicas,
        "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": {"spec": {"containers": []}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}]}});
    for (key, value) in change.as_object().unwrap() {
        set["spec"][key] = value.clone();
    }
    serde_json::from_value(set).unwrap()
}

/// `name revision state`, where the state is `+` (available), `-` (starting), `x` (terminating) or `f` (failed).
fn pods(texts: &[&str]) -> Vec<Arc<Pod>> {
    let pod = |text: &&str| {
        let parts: Vec<_> = text.split(' ').collect();
        let mut pod = json!({"metadata": {"name": parts[0], "labels": {hash::REVISION: parts[1]}},
            "status": {"phase": if parts[2] == "f" { "Failed" } else { "Running" }}});
        match parts[2] {
            "+" => pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]),
            "x" => pod["metadata"]["deletionTimestamp"] = json!("2025-01-01T00:00:00Z"),
            _ => {}
        }
        Arc::new(serde_json::from_value(pod).unwrap())
    };
    texts.iter().map(pod).collect()
}

fn plan_rows(object: &StatefulSet, texts: &[&str]) -> Vec<String> {
    let set = Set {
        object,
        current: "old".into(),
        update: "new".into(),
    };
    let steps = steps(&set, &pods(texts), "2025-06-01T00:00:00Z".parse().unwrap());
    let text = |step: &Step| match step {
        Step::Create(ordinal) => format!("+{ordinal}"),
        Step::Delete(pod) => format!("-{}", pod.name_any()),
    };
    steps.iter().map(text).collect()
}

#[test]
fn pods_come_in_order_and_go_in_the_reverse() {
    let three = set(3, json!({}));
    assert_eq!(plan_rows(&three, &[]), ["+0"]);
    assert!(plan_rows(&three, &["db-0 new -"]).is_empty());
    assert_eq!(plan_rows(&three, &["db-0 new +"]), ["+1"]);
    assert_eq!(plan_rows(&three, &["db-0 new f"]), ["-db-0"]);
    assert!(plan_rows(&three, &["db-0 new x", "db-1 new +"]).is_empty());
    let one = set(1, json!({}));
    assert_eq!(
        plan_rows(&one, &["db-0 new +", "db-1 new +", "db-2 new +"]),
        ["-db-2"]
    );
    assert!(plan_rows(&one, &["db-0 new +", "db-1 new +", "db-2 new x"]).is_empty());
}

/// As in Kubernetes: the highest waits until it is ready, unless it is the only one that is not.
#[test]
fn surplus_pods_that_are_not_ready_wait() {
    let none = set(0, json!({}));
    for (pods, steps) in [
        (["db-0 new -", "db-1 new -", "db-2 new -"], vec![]),
        (["db-0 new +", "db-1 new -", "db-2 new -"], vec![]),
        (["db-0 new +", "db-1 new +", "db-2 new -"], vec!["-db-2"]),
        (["db-0 new -", "db-1 new -", "db-2 new +"], vec!["-db-2"]),
    ] {
        assert_eq!(plan_rows(&none, &pods), steps, "{pods:?}");
    }
}

#[test]
fn parallel_ones_do_not_wait_for_each_other() {
    let parallel = |replicas| set(replicas, json!({"podManagementPolicy": "Parallel"}));
    assert_eq!(plan_rows(&parallel(3), &["db-1 new -"]), ["+0", "+2"]);
    assert_eq!(
        plan_rows(&parallel(0), &["db-0 new +", "db-1 new +"]),
        ["-db-1", "-db-0"]
    );
}

#[test]
fn updates_go_from_the_highest_down_to_the_partition() {
    let old = ["db-0 old +", "db-1 old +", "db-2 old +"];
    assert_eq!(plan_rows(&set(3, json!({})), &old), ["-db-2"]);
    assert_eq!(
        plan_rows(
            &set(3, json!({})),
            &["db-0 old +", "db-1 old +", "db-2 new +"]
        ),
        ["-db-1"]
    );
    let to = |partition| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}});
    assert_eq!(plan_rows(&set(3, to(2)), &old), ["-db-2"]);
    assert!(plan_rows(&set(3, to(2)), &["db-0 old +", "db-1 old +", "db-2 new +"]).is_empty());
    assert!(
        plan_rows(
            &set(3, json!({"updateStrategy": {"type": "OnDelete"}})),
            &old
        )
        .is_empty()
    );
    assert_eq!(
        plan_rows(&set(2, json!({"ordinals": {"start": 5}})), &["db-5 new +"]),
        ["+6"]
    );
}

#[test]
fn a_pod_has_a_name_and_claims_of_its_own() {
    let revision =
        serde_json::from_value(json!({"metadata": {"name": "db-r"}, "revision": 1})).unwrap();
    let pod = pod(&set(1, json!({})), 4, &revision);
    assert_eq!(pod.name_any(), "db-4");
    assert_eq!(
        (
            pod.labels()[POD_NAME].as_str(),
            pod.labels()[POD_INDEX].as_str()
        ),
        ("db-4", "4")
    );
    let spec = pod.spec.unwrap();
    assert_eq!(
        (spec.hostname.as_deref(), spec.subdomain.as_deref()),
        (Some("db-4"), Some("db"))
    );
    let volume = &spec.volumes.unwrap()[0];
    assert_eq!(
        (
            volume.name.as_str(),
            volume
                .persistent_volume_claim
                .as_ref()
                .unwrap()
                .claim_name
                .as_str()
        ),
        ("data", "data-db-4")
    );
}

#[test]
fn the_first_number_is_where_the_set_says() {
    let two = set(2, json!({"ordinals": {"start": 5}}));
    assert_eq!(plan_rows(&two, &[]), ["+5"]);
    assert_eq!(plan_rows(&two, &["db-5 new +"]), ["+6"]);
    assert_eq!(
        plan_rows(&two, &["db-0 new +", "db-5 new +", "db-6 new +"]),
        ["-db-0"]
    );
    let partition =
        json!({"ordinals": {"start": 5}, "updateStrategy": {"rollingUpdate": {"partition": 1}}});
    assert_eq!(
        plan_rows(&set(2, partition), &["db-5 old +", "db-6 old +"]),
        ["-db-6"]
    );
}

#[test]
fn what_is_updated_on_deletion_waits_for_it() {
    let by_hand = set(2, json!({"updateStrategy": {"type": "OnDelete"}}));
    assert!(plan_rows(&by_hand, &["db-0 old +", "db-1 old +"]).is_empty());
    assert_eq!(plan_rows(&by_hand, &["db-0 old +"]), ["+1"]);
    let view = Set {
        object: &by_hand,
        current: "old".into(),
        update: "new".into(),
    };
    assert!(
        view.is_updated(1),
        "what is made anew is of the new revision"
    );
}

#[test]
fn as_many_pods_are_away_at_once_as_may_be() {
    let rolling = |max: Value| {
        set(
            4,
            json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": max}},
            "podManagementPolicy": "Parallel"}),
        )
    };
    let all = ["db-0 old +", "db-1 old +", "db-2 old +", "db-3 old +"];
    for (max, expected) in [
        (json!(1), vec!["-db-3"]),
        (json!(2), vec!["-db-3", "-db-2"]),
        (json!("75%"), vec!["-db-3", "-db-2", "-db-1"]),
        (json!("10%"), vec!["-db-3"]),
    ] {
        assert_eq!(plan_rows(&rolling(max.clone()), &all), expected, "{max}");
    }
    let under_way = ["db-0 old +", "db-1 old +", "db-2 old +", "db-3 new -"];
    assert_eq!(plan_rows(&rolling(json!(2)), &under_way), ["-db-2"]);
}

#[test]
fn an_unavailable_pod_of_any_revision_counts() {
    let rolling = json!({"podManagementPolicy": "Parallel"});
    let set = set(3, rolling);
    assert!(plan_rows(&set, &["db-0 new -", "db-1 old +", "db-2 old +"]).is_empty());
    assert!(plan_rows(&set, &["db-0 old x", "db-1 old +", "db-2 old +"]).is_empty());
    assert_eq!(
        plan_rows(&set, &["db-0 old -", "db-1 old +", "db-2 old +"]),
        ["-db-0"],
        "it is replaced anyway"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_more_pods_are_unavailable_than_promised(
        states in vec((any_state(), prop::bool::ANY), 1..7),
        (parallel, partition, most) in (prop::bool::ANY, 0..4, 1..4_usize),
    ) {
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition, "maxUnavailable": most}});
        let policy = if parallel { "Parallel" } else { "OrderedReady" };
        let set = set(i32::try_from(states.len()).unwrap(),
            json!({"podManagementPolicy": policy, "updateStrategy": strategy, "minReadySeconds": MIN_READY}));
        let pods: Vec<_> = states.iter().enumerate().filter_map(|(ordinal, (state, is_old))| {
            state.pod(&format!("db-{ordinal}"), "n", if *is_old { "old" } else { "new" })
        }).collect();
        let view = Set { object: &set, current: "old".into(), update: "new".into() };
        let deleted: Vec<_> = steps(&view, &pods, pod_states::now()).into_iter().filter_map(|step| match step {
            Step::Delete(pod) => Some(pod),
            Step::Create(_) => None,
        }).collect();
        let promised = states.len().saturating_sub(most);
        prop_assert!(remaining_pods(&pods, &deleted).len() >= promised.min(remaining_pods(&pods, &[]).len()), "{deleted:?}");
    }
}
