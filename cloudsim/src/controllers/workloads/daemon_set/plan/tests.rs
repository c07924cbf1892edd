//! Tests of [`super`].

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::{
    super::placement::{node_of, pod},
    *,
};
use crate::controllers::workloads::pod_states::{self, MIN_READY, any_state, remaining_pods};

fn set(spec: Value) -> DaemonSet {
    let mut set = json!({"metadata": {"name": "agent", "namespace": "n", "uid": "1"},
        "spec": {"selector": {}, "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": []}}}});
    for (key, value) in spec.as_object().unwrap() {
        set["spec"]["template"]["spec"][key] = value.clone();
    }
    serde_json::from_value(set).unwrap()
}

fn node(name: &str, taints: Value) -> Arc<Node> {
    let labels = json!({"zone": "a", "name": name});
    Arc::new(
        serde_json::from_value(
            json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}),
        )
        .unwrap(),
    )
}

fn running(name: &str, node: &str, revision: &str) -> Arc<Pod> {
    let conditions =
        json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}]);
    let labels = json!({hash::REVISION: revision});
    Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "labels": labels},
        "spec": {"containers": [], "nodeName": node}, "status": {"phase": "Running", "conditions": conditions}})).unwrap())
}

fn change_pod(pod: Arc<Pod>, change: impl FnOnce(&mut Pod)) -> Arc<Pod> {
    let mut pod = (*pod).clone();
    change(&mut pod);
    Arc::new(pod)
}

fn texts(plan: &Plan) -> (Vec<String>, Vec<String>) {
    (
        plan.delete.iter().map(|pod| pod.name_any()).collect(),
        plan.create.clone(),
    )
}

fn plan_rows(
    set: &DaemonSet,
    nodes: &[Arc<Node>],
    pods: &[Arc<Pod>],
) -> (Vec<String>, Vec<String>) {
    texts(&plan(
        set,
        "now",
        nodes,
        pods,
        "2025-06-01T00:00:00Z".parse().unwrap(),
    ))
}

#[test]
fn each_fitting_node_has_one_pod() {
    let nodes = [
        node("a", json!([])),
        node("b", json!([])),
        node("c", json!([{"key": "gpu", "effect": "NoSchedule"}])),
    ];
    let strings = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    let all = set(json!({}));
    assert_eq!(plan_rows(&all, &nodes, &[]), (vec![], strings(&["a", "b"])));
    assert_eq!(
        plan_rows(&all, &nodes, &[running("1", "a", "now")]),
        (vec![], strings(&["b"]))
    );
    let tolerant = set(json!({"tolerations": [{"operator": "Exists"}]}));
    assert_eq!(
        plan_rows(&tolerant, &nodes, &[]).1,
        strings(&["a", "b", "c"])
    );
    let picky = set(json!({"nodeSelector": {"name": "b"}}));
    assert_eq!(
        plan_rows(&picky, &nodes, &[running("1", "a", "now")]),
        (strings(&["1"]), strings(&["b"]))
    );
    let twice = [
        running("1", "a", "now"),
        running("2", "a", "now"),
        running("3", "b", "now"),
    ];
    assert_eq!(plan_rows(&all, &nodes, &twice).0, ["2"]);
}

#[test]
fn a_node_out_of_reach_keeps_its_pod() {
    let away = json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]);
    assert_eq!(
        plan_rows(
            &set(json!({})),
            &[node("a", away)],
            &[running("1", "a", "now")]
        ),
        (vec![], vec![])
    );
}

#[test]
fn a_pod_that_ends_is_replaced_when_it_is_gone() {
    let nodes = [node("a", json!([]))];
    let ending = change_pod(running("1", "a", "now"), |pod| {
        pod.metadata.deletion_timestamp =
            serde_json::from_value(json!("2025-01-01T00:00:00Z")).unwrap();
    });
    assert_eq!(
        plan_rows(&set(json!({})), &nodes, &[ending]),
        (vec![], vec![])
    );
    let failed = change_pod(running("1", "a", "now"), |pod| {
        pod.status.as_mut().unwrap().phase = Some("Failed".into())
    });
    assert_eq!(
        plan_rows(&set(json!({})), &nodes, &[failed]),
        (vec!["1".into()], vec!["a".into()])
    );
}

#[test]
fn old_templates_go_one_by_one_the_broken_first() {
    let nodes = [
        node("a", json!([])),
        node("b", json!([])),
        node("c", json!([])),
    ];
    let old = || {
        vec![
            running("1", "a", "old"),
            running("2", "b", "old"),
            running("3", "c", "old"),
        ]
    };
    assert_eq!(plan_rows(&set(json!({})), &nodes, &old()).0, ["1"]);
    let mut pods = old();
    pods[1] = change_pod(running("2", "b", "old"), |pod| {
        pod.status.as_mut().unwrap().conditions = None
    });
    assert_eq!(plan_rows(&set(json!({})), &nodes, &pods).0, ["2"]);
    let mut pods = old();
    pods[0] = change_pod(running("1", "a", "now"), |pod| {
        pod.status.as_mut().unwrap().conditions = None
    });
    assert!(
        plan_rows(&set(json!({})), &nodes, &pods).0.is_empty(),
        "the new one is not there yet"
    );
}

#[test]
fn its_pod_knows_its_node() {
    let pod = pod(&set(json!({})), "now", "a");
    assert_eq!(
        (node_of(&pod), pod.metadata.generate_name.as_deref()),
        (Some("a"), Some("agent-"))
    );
    let spec = pod.spec.unwrap();
    assert_eq!(spec.tolerations.unwrap().len(), 8);
}

fn updated_by(strategy: Value) -> DaemonSet {
    let mut set = set(json!({}));
    set.spec.as_mut().unwrap().update_strategy = serde_json::from_value(strategy).unwrap();
    set
}

#[test]
fn so_many_may_be_missing_or_none_before_it_is_deleted() {
    let nodes = ["a", "b", "c", "d"].map(|name| node(name, json!([])));
    let old = ["a", "b", "c", "d"].map(|name| running(name, name, "old"));
    for (strategy, expected) in [
        (json!({"rollingUpdate": {"maxUnavailable": 3}}), 3),
        (json!({"rollingUpdate": {"maxUnavailable": "50%"}}), 2),
        (json!({"type": "OnDelete"}), 0),
        (
            json!({"type": "OnDelete", "rollingUpdate": {"maxSurge": 2}}),
            0,
        ),
    ] {
        let (deleted, created) = plan_rows(&updated_by(strategy.clone()), &nodes, &old);
        assert_eq!((deleted.len(), created.len()), (expected, 0), "{strategy}");
    }
}

#[test]
fn the_new_pod_works_before_the_old_one_goes() {
    let surging =
        |most: Value| updated_by(json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": most}}));
    let one = surging(json!(1));
    let nodes = ["a", "b", "c"].map(|name| node(name, json!([])));
    let old = || {
        ["a", "b", "c"]
            .map(|name| running(name, name, "old"))
            .to_vec()
    };
    let strings = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    let starting = || {
        change_pod(running("new", "a", "now"), |pod| {
            pod.status.as_mut().unwrap().conditions = None
        })
    };
    assert_eq!(plan_rows(&one, &nodes, &old()), (vec![], strings(&["a"])));
    assert_eq!(
        plan_rows(&surging(json!("50%")), &nodes, &old()),
        (vec![], strings(&["a", "b"]))
    );
    let pods = [old(), vec![starting()]].concat();
    assert_eq!(
        plan_rows(&one, &nodes, &pods),
        (vec![], vec![]),
        "the new one is not there yet"
    );
    let pods = [old(), vec![running("new", "a", "now")]].concat();
    assert_eq!(
        plan_rows(&one, &nodes, &pods),
        (strings(&["a"]), strings(&["b"]))
    );
    let mut pods = [old(), vec![starting()]].concat();
    pods[1] = change_pod(running("b", "b", "old"), |pod| {
        pod.status.as_mut().unwrap().conditions = None
    });
    assert_eq!(
        plan_rows(&one, &nodes, &pods),
        (vec![], strings(&["b"])),
        "the broken one need not wait"
    );
    assert_eq!(plan_rows(&one, &nodes, &[]).1, strings(&["a", "b", "c"]));
}

#[test]
fn a_terminating_or_failed_pod_counts_as_unavailable() {
    let nodes = ["a", "b", "c", "d"].map(|name| node(name, json!([])));
    let old = ["a", "b", "c", "d"].map(|name| running(name, name, "old"));
    let one = updated_by(json!({"rollingUpdate": {"maxUnavailable": 1}}));
    let mut pods = old.to_vec();
    pods[0] = change_pod(pods[0].clone(), |pod| {
        pod.metadata.deletion_timestamp =
            serde_json::from_value(json!("2025-01-01T00:00:00Z")).unwrap();
    });
    assert_eq!(
        plan_rows(&one, &nodes, &pods),
        (vec![], vec![]),
        "one is on its way out"
    );
    let mut pods = old.to_vec();
    pods[0] = change_pod(pods[0].clone(), |pod| {
        pod.status.as_mut().unwrap().phase = Some("Failed".into())
    });
    assert_eq!(
        plan_rows(&one, &nodes, &pods),
        (vec!["a".into()], vec!["a".into()])
    );
    let with_other = [node("x", json!([{"key": "gpu", "effect": "NoSchedule"}]))]
        .into_iter()
        .chain(nodes);
    let half = updated_by(json!({"rollingUpdate": {"maxUnavailable": "50%"}}));
    let (deleted, _) = plan_rows(&half, &with_other.collect::<Vec<_>>(), &old);
    assert_eq!(deleted.len(), 2, "only nodes that should run a pod count");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// With a surge none may be missing, else `maxUnavailable`, which is rounded up.
    #[test]
    fn no_more_nodes_are_without_an_available_pod_than_promised(
        nodes in vec(vec((any_state(), prop::bool::ANY), 0..3), 1..7),
        most in prop_oneof![Just(json!(1)), Just(json!(2)), Just(json!("40%")), Just(json!("100%"))],
        surges in prop::bool::ANY,
    ) {
        let rolling = if surges { json!({"maxSurge": most, "maxUnavailable": 0}) } else { json!({"maxUnavailable": most}) };
        let mut set = updated_by(json!({"type": "RollingUpdate", "rollingUpdate": rolling}));
        set.spec.as_mut().unwrap().min_ready_seconds = Some(MIN_READY);
        let names: Vec<_> = (0..nodes.len()).map(|number| format!("node-{number}")).collect();
        let pods: Vec<_> = nodes.iter().zip(&names).flat_map(|(states, node)| {
            states.iter().enumerate().filter_map(move |(number, (state, is_old))| {
                let name = format!("{node}-{number}");
                // a daemon's pod is bound from the beginning
                state.pod(&name, node, if *is_old { "old" } else { "now" }).map(|pod| change_pod(pod, |pod| {
                    pod.spec.as_mut().unwrap().node_name = Some(node.clone());
                }))
            })
        }).collect();
        let nodes: Vec<_> = names.iter().map(|name| node(name, json!([]))).collect();
        let plan = plan(&set, "now", &nodes, &pods, pod_states::now());
        let served = |deleted: &[Arc<Pod>]| remaining_pods(&pods, deleted).into_iter().filter_map(|pod| node_of(pod)).collect::<BTreeSet<_>>().len();
        let allowed = if surges { 0 } else { amount(Some(&serde_json::from_value(most).unwrap()), i32::try_from(nodes.len()).unwrap(), true) };
        let promised = nodes.len().saturating_sub(usize::try_from(allowed).unwrap());
        prop_assert!(served(&plan.delete) >= promised.min(served(&[])), "{:?}", texts(&plan));
    }
}
