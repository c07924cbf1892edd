//! Tests of scheduling: nodes, existing pods, a pod, and the decision about it.

use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};

use super::*;
use crate::controllers::{
    informers::Change,
    scheduler::{node_state::EDGE_LABEL, state::SchedulerState},
};

fn change<K>(value: Value) -> Change<K>
where
    K: serde::de::DeserializeOwned,
{
    Change {
        before: None,
        object: Arc::new(serde_json::from_value(value).unwrap()),
        gone: false,
    }
}

fn merge(value: &mut Value, patch: &Value) {
    for (key, patch) in patch.as_object().unwrap() {
        match (value.get_mut(key), patch) {
            (Some(old @ Value::Object(_)), Value::Object(_)) => merge(old, patch),
            _ => value[key] = patch.clone(),
        }
    }
}

/// An edge node with 2 CPUs, 4 GiB and room for 10 pods.
fn node(name: &str, patch: Value) -> Value {
    let mut node = json!({"metadata": {"name": name, "labels": {EDGE_LABEL: "", "kubernetes.io/hostname": name}}, "spec": {}, "status": {
        "conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}});
    merge(&mut node, &patch);
    node
}

/// A pod with one container and this specification.
fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name, "uid": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c"}], "priority": 0}, "status": {"phase": "Pending"}});
    merge(&mut pod["spec"], &spec);
    pod
}

fn cpu(amount: &str) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": amount}}}]})
}

fn on(node: &str, mut spec: Value) -> Value {
    spec["nodeName"] = json!(node);
    spec
}

fn state(nodes: &[Value], pods: &[Value]) -> SchedulerState {
    let mut state = SchedulerState::default();
    nodes
        .iter()
        .for_each(|node| state.node(&change(node.clone())));
    pods.iter().for_each(|pod| state.pod(&change(pod.clone())));
    state
}

fn decide_on(state: &SchedulerState, wanted: &Value) -> Decision {
    decide_after(state, wanted, &mut String::new())
}

fn decide_after(state: &SchedulerState, wanted: &Value, last: &mut String) -> Decision {
    let wanted: Pod = serde_json::from_value(wanted.clone()).unwrap();
    let namespaces = |name: &str| {
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"labels": {"team": name}}})).unwrap();
        namespace.metadata.labels.unwrap()
    };
    let nominated = state.queue.nominated_pods();
    let snapshot = Snapshot {
        nodes: &state.nodes,
        storage: &state.storage,
        namespaces: &namespaces,
        nominated: &nominated,
    };
    decide(&wanted, snapshot, &[], last)
}

/// The decision as text: `-> node`, or the message, or the message and the victims.
fn outcome(state: &SchedulerState, wanted: &Value) -> String {
    match decide_on(state, wanted) {
        Decision::Bind(node) => format!("-> {node}"),
        Decision::Wait(why) => why,
        Decision::Preempt(Preemption { node, victims }, why) => {
            let names: Vec<_> = victims
                .iter()
                .map(|pod| pod.metadata.name.clone().unwrap())
                .collect();
            format!("{why} {node} without {}", names.join(", "))
        }
    }
}

const NO_VICTIMS: &str =
    "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";
const NOT_HELPFUL: &str =
    "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";

#[test]
fn the_emptiest_fitting_node_is_chosen() {
    let nodes = [node("a", json!({})), node("b", json!({}))];
    assert_eq!(
        outcome(
            &state(&nodes, &[pod("p", on("a", json!({})))]),
            &pod("q", json!({}))
        ),
        "-> b"
    );
    assert_eq!(outcome(&state(&nodes, &[]), &pod("q", json!({}))), "-> a");
    assert_eq!(
        outcome(&SchedulerState::default(), &pod("q", json!({}))),
        "no nodes available to schedule pods"
    );
}

#[test]
fn each_refusal_is_counted_in_the_message() {
    let nodes = [
        node("cordoned", json!({"spec": {"unschedulable": true}})),
        node(
            "off",
            json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
        ),
        node(
            "tainted",
            json!({"spec": {"taints": [{"key": "gpu", "value": "x", "effect": "NoSchedule"}]}}),
        ),
        json!({"metadata": {"name": "cloud"}}),
        node(
            "small",
            json!({"status": {"allocatable": {"cpu": "1", "memory": "1Gi"}}}),
        ),
    ];
    let wanted = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m", "memory": "2Gi"}}}]});
    assert_eq!(
        outcome(&state(&nodes, &[]), &pod("p", wanted)),
        "0/5 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 node(s) didn't have the label node-role.kubernetes.io/edge, \
         1 node(s) had untolerated taint {gpu: x}, 1 node(s) were not ready, 1 node(s) were unschedulable. \
         preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."
    );
}

#[test]
fn one_node_has_room_or_says_why_not() {
    let port = |port: i32, more: Value| {
        let mut own = json!({"containerPort": 80, "hostPort": port});
        merge(&mut own, &more);
        json!({"containers": [{"name": "c", "ports": [own]}]})
    };
    let taken =
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
    let short = "0/1 nodes are available: 1 Insufficient cpu.";
    for (there, wanted, expected) in [
        (json!({}), cpu("2"), "-> a".to_owned()),
        (json!({}), cpu("2001m"), format!("{short} {NOT_HELPFUL}")),
        (cpu("1"), cpu("1"), "-> a".to_owned()),
        (cpu("1"), cpu("1001m"), format!("{short} {NO_VICTIMS}")),
        (cpu("2"), json!({}), "-> a".to_owned()),
        (
            json!({}),
            json!({"containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]}),
            format!("0/1 nodes are available: 1 Insufficient example.com/gpu. {NOT_HELPFUL}"),
        ),
        (
            json!({}),
            json!({"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "3"}}}]}),
            format!("{short} {NOT_HELPFUL}"),
        ),
        (
            port(8080, json!({})),
            port(8080, json!({})),
            format!("{taken} {NO_VICTIMS}"),
        ),
        (
            port(8080, json!({})),
            port(8081, json!({})),
            "-> a".to_owned(),
        ),
        (
            port(8080, json!({"protocol": "UDP"})),
            port(8080, json!({})),
            "-> a".to_owned(),
        ),
        (
            port(8080, json!({"hostIP": "10.0.0.1"})),
            port(8080, json!({"hostIP": "10.0.0.2"})),
            "-> a".to_owned(),
        ),
        (
            port(8080, json!({"hostIP": "10.0.0.1"})),
            port(8080, json!({})),
            format!("{taken} {NO_VICTIMS}"),
        ),
        (
            json!({}),
            json!({"nodeSelector": {"zone": "b"}}),
            format!(
                "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. {NOT_HELPFUL}"
            ),
        ),
    ] {
        let state = state(
            &[node("a", json!({}))],
            &[pod("there", on("a", there.clone()))],
        );
        assert_eq!(
            outcome(&state, &pod("p", wanted.clone())),
            expected,
            "{there} {wanted}"
        );
    }
}

#[test]
fn what_was_decided_counts_at_once_and_what_ended_no_more() {
    let mut state = state(&[node("a", json!({})), node("b", json!({}))], &[]);
    for (name, expected) in [("1", "-> a"), ("2", "-> b")] {
        let wanted = pod(name, cpu("1500m"));
        assert_eq!(outcome(&state, &wanted), expected);
        state.assume(&serde_json::from_value(wanted).unwrap(), &expected[3..]);
    }
    let third = pod("3", cpu("1500m"));
    assert!(outcome(&state, &third).starts_with("0/2 nodes are available: 2 Insufficient cpu."));
    let mut ended = pod("2", on("b", cpu("1500m")));
    ended["status"]["phase"] = json!("Failed");
    state.pod(&change(ended));
    assert_eq!(outcome(&state, &third), "-> b");
    let full: Vec<_> = (0..10)
        .map(|number| pod(&number.to_string(), on("a", json!({}))))
        .collect();
    let full = self::state(&[node("a", json!({}))], &full);
    assert_eq!(
        outcome(&full, &pod("p", json!({}))),
        format!("0/1 nodes are available: 1 Too many pods. {NO_VICTIMS}")
    );
}

#[test]
fn selectors_and_tolerations_decide() {
    let tainted =
        json!({"spec": {"taints": [{"key": "gpu", "value": "x", "effect": "NoSchedule"}]}});
    let state = state(&[node("tainted", tainted)], &[]);
    for (toleration, fits) in [
        (json!({"operator": "Exists"}), true),
        (
            json!({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}),
            true,
        ),
        (json!({"key": "gpu", "value": "x"}), true),
        (json!({"key": "gpu", "value": "y"}), false),
        (
            json!({"key": "gpu", "value": "x", "effect": "NoExecute"}),
            false,
        ),
    ] {
        let wanted = pod("p", json!({"tolerations": [toleration]}));
        assert_eq!(
            outcome(&state, &wanted).starts_with("-> "),
            fits,
            "{toleration}"
        );
    }
}

#[test]
fn pods_are_near_and_far_and_spread() {
    let zones = [("a", "1"), ("b", "1"), ("c", "2")];
    let nodes: Vec<_> = zones
        .iter()
        .map(|(name, zone)| node(name, json!({"metadata": {"labels": {"zone": zone}}})))
        .collect();
    let term = |key: &str, app: &str| json!([{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]);
    let near = |key: &str, app: &str| json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term(key, app)}}});
    let far = |key: &str, app: &str| json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term(key, app)}}});
    let spread = |key: &str| {
        json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}}]})
    };
    let on_a = || vec![pod("1", on("a", json!({})))];
    let unhelpful =
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    for (there, wanted, expected) in [
        (on_a(), near("zone", "web"), "-> b".to_owned()),
        (
            on_a(),
            near("kubernetes.io/hostname", "web"),
            "-> a".to_owned(),
        ),
        (
            on_a(),
            near("zone", "db"),
            format!(
                "0/3 nodes are available: 3 node(s) didn't match pod affinity rules. {unhelpful}"
            ),
        ),
        (vec![], near("zone", "web"), "-> a".to_owned()),
        (on_a(), far("zone", "web"), "-> c".to_owned()),
        (
            on_a(),
            far("kubernetes.io/hostname", "web"),
            "-> b".to_owned(),
        ),
        (
            vec![pod("1", on("a", far("zone", "web")))],
            json!({}),
            "-> c".to_owned(),
        ),
        (on_a(), spread("zone"), "-> c".to_owned()),
        (
            vec![pod("1", on("a", json!({}))), pod("2", on("c", json!({})))],
            spread("zone"),
            "-> b".to_owned(),
        ),
        (
            on_a(),
            spread("rack"),
            format!(
                "0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints (missing required label). {unhelpful}"
            ),
        ),
    ] {
        assert_eq!(
            outcome(&state(&nodes, &there), &pod("p", wanted.clone())),
            expected,
            "{wanted}"
        );
    }
    let alone = [node("a", json!({}))];
    assert_eq!(
        outcome(
            &state(&alone, &on_a()),
            &pod("p", far("kubernetes.io/hostname", "web"))
        ),
        format!(
            "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules. {NO_VICTIMS}"
        )
    );
    assert_eq!(
        outcome(
            &state(
                &alone,
                &[pod("1", on("a", far("kubernetes.io/hostname", "web")))]
            ),
            &pod("p", json!({}))
        ),
        format!(
            "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules. {NO_VICTIMS}"
        )
    );
}

#[test]
fn volumes_have_their_nodes() {
    let claim = |phase: &str, class: &str| {
        json!({"metadata": {"name": "data", "namespace": "default"}, "spec": {"storageClassName": class,
        "accessModes": ["ReadWriteOnce"], "volumeName": if phase == "Bound" { "v" } else { "" }, "resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": phase}})
    };
    let volume = |node: &str| {
        json!({"metadata": {"name": "v"}, "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}}}})
    };
    let late = json!({"metadata": {"name": "late"}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"});
    let unhelpful =
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    for (claim, on_node, expected) in [
        (Some(claim("Bound", "late")), "b", "-> b".to_owned()),
        (
            Some(claim("Bound", "late")),
            "z",
            format!(
                "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity. {unhelpful}"
            ),
        ),
        (Some(claim("Pending", "late")), "b", "-> b".to_owned()),
        (
            Some(claim("Pending", "late")),
            "z",
            format!(
                "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind. {unhelpful}"
            ),
        ),
        (
            Some(claim("Pending", "soon")),
            "b",
            format!(
                "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. {unhelpful}"
            ),
        ),
        (
            None,
            "b",
            format!(
                "0/2 nodes are available: persistentvolumeclaim \"data\" not found. {unhelpful}"
            ),
        ),
    ] {
        let mut state = state(&[node("a", json!({})), node("b", json!({}))], &[]);
        state.class(&change(late.clone()));
        state.volume(&change(volume(on_node)));
        if let Some(claim) = claim {
            state.claim(&change(claim));
        }
        let wanted =
            json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
        assert_eq!(outcome(&state, &pod("p", wanted)), expected);
    }
}

#[test]
fn less_important_pods_make_room() {
    let with = |amount: &str, priority: i32, node: &str| {
        let mut spec = cpu(amount);
        spec["priority"] = json!(priority);
        if node.is_empty() {
            spec
        } else {
            on(node, spec)
        }
    };
    let nodes = [node("a", json!({})), node("b", json!({}))];
    let there = [
        pod("low", with("1", 1, "a")),
        pod("lower", with("1", 0, "a")),
        pod("high", with("1", 50, "b")),
        pod("low-too", with("1", 5, "b")),
    ];
    let full = state(&nodes, &there);
    let short = "0/2 nodes are available: 2 Insufficient cpu.";
    let none =
        "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.";
    for (wanted, expected) in [
        (with("1", 100, ""), format!("{short} a without lower")),
        (with("2", 100, ""), format!("{short} a without low, lower")),
        (with("1", 1, ""), format!("{short} a without lower")),
        (with("1", 0, ""), format!("{short} {none}")),
        (with("2", 5, ""), format!("{short} a without low, lower")),
    ] {
        assert_eq!(
            outcome(&full, &pod("p", wanted.clone())),
            expected,
            "{wanted}"
        );
    }
    let mut never = with("1", 100, "");
    never["preemptionPolicy"] = json!("Never");
    let expected = format!("{short} preemption: not eligible due to preemptionPolicy=Never.");
    assert_eq!(outcome(&full, &pod("p", never)), expected);

    // room is made only for the pod that preempts
    let mut waiting = pod("important", with("1", 100, ""));
    waiting["status"]["nominatedNodeName"] = json!("a");
    let mut made = state(&nodes[..1], &there[..1]);
    made.pod(&change(waiting.clone()));
    let expected = format!("0/1 nodes are available: 1 Insufficient cpu. {NO_VICTIMS}");
    assert_eq!(outcome(&made, &pod("p", with("1", 0, ""))), expected);
    assert_eq!(outcome(&made, &waiting), "-> a");
    let mut ending = there[1].clone();
    ending["metadata"]["deletionTimestamp"] = json!("2025-06-01T00:00:00Z");
    made.pod(&change(ending));
    assert!(
        outcome(&made, &waiting)
            .ends_with("preemption: not eligible due to a terminating pod on the nominated node.")
    );
}

#[test]
fn a_pod_goes_where_it_would_rather_be() {
    let zone = |name: &str, zone: &str| node(name, json!({"metadata": {"labels": {"zone": zone}}}));
    let nodes = [zone("a", "1"), zone("b", "2"), zone("c", "3")];
    let there = [pod("other", on("b", json!({})))];
    let near = |kind: &str| {
        let term = json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"});
        json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}}})
    };
    let goes = |nodes: &[Value], pods: &[Value], spec: Value| match decide_on(
        &state(nodes, pods),
        &pod("new", spec),
    ) {
        Decision::Bind(node) => node,
        other => panic!("{other:?}"),
    };
    assert_eq!(goes(&nodes, &there, json!({})), "a");
    assert_eq!(goes(&nodes, &there, near("podAffinity")), "b");
    let mut full = there.to_vec();
    full.push(pod("another", on("a", json!({}))));
    assert_eq!(goes(&nodes, &full, near("podAntiAffinity")), "c");
    // other pods' preferences about this one count as well
    let welcoming = [pod("other", on("c", near("podAffinity")))];
    assert_eq!(goes(&nodes, &welcoming, json!({})), "c");

    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}}}]});
    let pair = [zone("a", "1"), zone("a2", "1"), zone("b", "2")];
    let uneven = [
        pod("one", on("a", cpu("100m"))),
        pod("two", on("b", cpu("1500m"))),
        pod("three", on("a2", json!({}))),
    ];
    assert_eq!(
        goes(&pair, &uneven, spread),
        "b",
        "fewer of its kind are there, though there is less room"
    );

    let image =
        |size: i64| json!({"status": {"images": [{"names": ["big:latest"], "sizeBytes": size}]}});
    let having = [node("a", json!({})), node("b", image(800 << 20))];
    assert_eq!(
        goes(
            &having,
            &[],
            json!({"containers": [{"name": "c", "image": "big"}]})
        ),
        "b"
    );
}

#[test]
fn of_many_nodes_only_enough_are_looked_at() {
    for (count, expected) in [
        (1, 1),
        (100, 100),
        (101, 100),
        (250, 120),
        (1000, 420),
        (5000, 500),
        (10_000, 500),
    ] {
        assert_eq!(enough(count, false), expected, "{count}");
        assert_eq!(enough(count, true), count);
    }
}

#[test]
fn searches_go_on_where_the_last_one_ended() {
    let nodes: Vec<_> = (0..250)
        .map(|number| node(&format!("n{number:03}"), json!({})))
        .collect();
    let state = state(&nodes, &[]);
    let mut last = String::new();
    let ends = [(); 4].map(|()| {
        let bound = decide_after(&state, &pod("q", json!({})), &mut last);
        assert!(matches!(bound, Decision::Bind(_)));
        last.clone()
    });
    assert_eq!(ends, ["n119", "n239", "n109", "n229"]);
    // a node that is gone meanwhile
    last = "n100x".to_owned();
    decide_after(&state, &pod("q", json!({})), &mut last);
    assert_eq!(last, "n220");
}
