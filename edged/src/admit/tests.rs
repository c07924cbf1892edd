//! Tables of pods and nodes.

use serde_json::{Value, json};

use super::*;

fn pod(uid: &str, spec: Value) -> Pod {
    let mut whole = json!({"nodeName": "edge-1", "containers": [{"name": "c", "image": "i"}]});
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    serde_json::from_value(
        json!({"metadata": {"name": uid, "namespace": "d", "uid": uid}, "spec": whole}),
    )
    .unwrap()
}

fn asking(uid: &str, requests: Value) -> Pod {
    pod(
        uid,
        json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}),
    )
}

fn place() -> NodeInfo {
    let node = json!({
        "metadata": {"name": "edge-1", "labels": {"disk": "ssd", "size": "7", "kubernetes.io/os": "linux"}},
        "spec": {"taints": [
            {"key": "maintenance", "value": "now", "effect": "NoExecute"},
            {"key": "special", "effect": "NoSchedule"},
        ]},
    });
    let allocatable = [
        ("cpu", 2000),
        ("memory", 1 << 30),
        ("ephemeral-storage", 1 << 30),
        ("pods", 3),
        ("example.com/gpu", 1),
    ];
    NodeInfo {
        node: serde_json::from_value(node).unwrap(),
        allocatable: allocatable
            .map(|(name, amount)| (name.to_owned(), amount))
            .into(),
        unsafe_sysctls: vec!["net.core.*".into()],
        apparmor: false,
    }
}

fn calm() -> NodeInfo {
    let mut place = place();
    place.node.spec = None;
    place
}

fn reason(pod: &Pod, others: &[&Pod], place: &NodeInfo) -> String {
    match admit(pod, others, place) {
        AdmitResult::Admitted => "admitted".into(),
        AdmitResult::Preempts(victims) => format!("preempts {}", victims.join(" ")),
        AdmitResult::Rejected(waiting) => format!("{}: {}", waiting.reason, waiting.message),
    }
}

#[test]
fn requested_resources_must_be_available() {
    let user = asking(
        "user",
        json!({"cpu": "1500m", "memory": "512Mi", "example.com/gpu": "1"}),
    );
    let table = [
        (json!({"cpu": "500m"}), "admitted"),
        (
            json!({"cpu": "501m"}),
            "OutOfcpu: Node didn't have enough resource: cpu, requested: 501, used: 1500, capacity: 2000",
        ),
        (
            json!({"memory": "513Mi"}),
            "OutOfmemory: Node didn't have enough resource: memory, requested: 537919488, used: 536870912, capacity: 1073741824",
        ),
        (
            json!({"ephemeral-storage": "2Gi"}),
            "OutOfephemeral-storage: Node didn't have enough resource: ephemeral-storage, requested: 2147483648, used: 0, capacity: 1073741824",
        ),
        (
            json!({"example.com/gpu": "1"}),
            "OutOfexample.com/gpu: Node didn't have enough resource: example.com/gpu, requested: 1, used: 1, capacity: 1",
        ),
        (json!({"example.com/unknown": "1"}), "admitted"),
        (
            json!({"hugepages-2Mi": "2Mi"}),
            "OutOfhugepages-2Mi: Node didn't have enough resource: hugepages-2Mi, requested: 2097152, used: 0, capacity: 0",
        ),
        (json!({"cpu": "nonsense"}), "admitted"),
    ];
    for (requests, expected) in table {
        assert_eq!(
            reason(&asking("new", requests.clone()), &[&user], &calm()),
            expected,
            "{requests}"
        );
    }
    let small = asking("small", json!({}));
    let full =
        "OutOfpods: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3";
    assert_eq!(reason(&small, &[&user, &small, &small], &calm()), full);
}

#[test]
fn init_containers_count_only_as_far_as_they_run_concurrently() {
    let cpu = |amount: &str| json!({"requests": {"cpu": amount}});
    let init = |name: &str, amount: &str| json!({"name": name, "resources": cpu(amount)});
    let sidecar = |name: &str, amount: &str| json!({"name": name, "resources": cpu(amount), "restartPolicy": "Always"});
    let main = json!([{"name": "m", "resources": cpu("300m")}]);
    let table = [
        (json!([init("a", "100m"), init("b", "200m")]), 300),
        (json!([init("a", "500m")]), 500),
        (json!([sidecar("s", "200m")]), 500),
        (json!([sidecar("s", "200m"), init("a", "400m")]), 600),
        (json!([init("a", "400m"), sidecar("s", "200m")]), 500),
    ];
    for (inits, expected) in table {
        let pod = pod(
            "p",
            json!({"containers": main, "initContainers": inits, "overhead": {"cpu": "10m"}}),
        );
        assert_eq!(requests_of(&pod)["cpu"], expected + 10, "{inits}");
    }
}

#[test]
fn node_name_selector_and_affinity_must_match() {
    let affinity = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
    let expression = |key: &str, operator: &str, values: Value| {
        affinity(
            json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]),
        )
    };
    let misfit = "NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
    let table = [
        (json!({"nodeSelector": {"disk": "ssd"}}), "admitted"),
        (json!({"nodeSelector": {"disk": "hdd"}}), misfit),
        (expression("disk", "In", json!(["hdd", "ssd"])), "admitted"),
        (expression("disk", "NotIn", json!(["ssd"])), misfit),
        (expression("none", "NotIn", json!(["ssd"])), "admitted"),
        (expression("disk", "Exists", json!([])), "admitted"),
        (expression("disk", "DoesNotExist", json!([])), misfit),
        (expression("size", "Gt", json!(["6"])), "admitted"),
        (expression("size", "Lt", json!(["7"])), misfit),
        (expression("disk", "Gt", json!(["6"])), misfit),
        (expression("disk", "Likes", json!(["ssd"])), misfit),
        (affinity(json!([{}])), misfit),
        (affinity(json!([])), misfit),
        (
            affinity(
                json!([{}, {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["edge-1"]}]}]),
            ),
            "admitted",
        ),
        (
            json!({"nodeName": "edge-2"}),
            "NodeName: Predicate NodeName failed: node(s) didn't match the requested node name",
        ),
        (json!({"os": {"name": "linux"}}), "admitted"),
        (
            json!({"os": {"name": "windows"}}),
            "PodOSNotSupported: Failed to admit pod as the OS field doesn't match node OS",
        ),
    ];
    for (spec, expected) in table {
        assert_eq!(
            reason(&pod("p", spec.clone()), &[], &calm()),
            expected,
            "{spec}"
        );
    }
    let mut labelled = pod("p", json!({}));
    labelled.metadata.labels = Some([("kubernetes.io/os".to_owned(), "windows".to_owned())].into());
    assert!(reason(&labelled, &[], &calm()).starts_with("PodOSSelectorNodeLabelDoesNotMatch"));
}

#[test]
fn taints_that_evict_must_be_tolerated() {
    let refused = "TaintToleration: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
    let table = [
        (json!([]), refused),
        (json!([{"operator": "Exists"}]), "admitted"),
        (
            json!([{"key": "maintenance", "operator": "Exists", "effect": "NoExecute"}]),
            "admitted",
        ),
        (json!([{"key": "maintenance", "value": "now"}]), "admitted"),
        (json!([{"key": "maintenance", "value": "later"}]), refused),
        (
            json!([{"key": "maintenance", "operator": "Exists", "effect": "NoSchedule"}]),
            refused,
        ),
    ];
    for (tolerations, expected) in table {
        let pod = pod("p", json!({"tolerations": tolerations}));
        assert_eq!(reason(&pod, &[], &place()), expected, "{tolerations}");
    }
    let mut from_file = pod("p", json!({}));
    from_file.metadata.annotations =
        Some([(CONFIG_SOURCE_ANNOTATION.to_owned(), "file".to_owned())].into());
    assert_eq!(
        reason(&from_file, &[], &place()),
        "admitted",
        "a static pod is asked nothing"
    );
}

#[test]
fn ports_must_be_free() {
    let with = |port: Value| pod("p", json!({"containers": [{"name": "c", "ports": [port]}]}));
    let taken = with(json!({"containerPort": 1, "hostPort": 80, "hostIP": "10.0.0.1"}));
    let refused = "NodePorts: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
    let table = [
        (json!({"containerPort": 80}), "admitted"),
        (json!({"containerPort": 1, "hostPort": 80}), refused),
        (
            json!({"containerPort": 1, "hostPort": 80, "protocol": "UDP"}),
            "admitted",
        ),
        (
            json!({"containerPort": 1, "hostPort": 80, "hostIP": "10.0.0.1"}),
            refused,
        ),
        (
            json!({"containerPort": 1, "hostPort": 80, "hostIP": "10.0.0.2"}),
            "admitted",
        ),
        (json!({"containerPort": 1, "hostPort": 81}), "admitted"),
    ];
    for (port, expected) in table {
        assert_eq!(
            reason(&with(port.clone()), &[&taken], &calm()),
            expected,
            "{port}"
        );
    }
}

#[test]
fn kernel_parameters_and_profiles_must_be_allowed() {
    let sysctl = |name: &str, host: bool| json!({"hostNetwork": host, "securityContext": {"sysctls": [{"name": name, "value": "1"}]}});
    let profile = |kind: &str| json!({"securityContext": {"appArmorProfile": {"type": kind}}});
    let table = [
        (sysctl("net.ipv4.tcp_syncookies", false), "admitted"),
        (sysctl("net/ipv4/tcp_syncookies", false), "admitted"),
        (sysctl("net.core.somaxconn", false), "admitted"),
        (
            sysctl("kernel.msgmax", false),
            "SysctlForbidden: forbidden sysctl: \"kernel.msgmax\" not allowlisted",
        ),
        (
            sysctl("net.ipv4.tcp_syncookies", true),
            "SysctlForbidden: forbidden sysctl: \"net.ipv4.tcp_syncookies\" not allowed with host Net enabled",
        ),
        (profile("Unconfined"), "admitted"),
        (
            profile("RuntimeDefault"),
            "AppArmor: Cannot enforce AppArmor: AppArmor is not enabled on the host",
        ),
    ];
    for (spec, expected) in table {
        assert_eq!(
            reason(&pod("p", spec.clone()), &[], &calm()),
            expected,
            "{spec}"
        );
    }
}

#[test]
fn critical_pod_preempts_lesser_pods() {
    let critical = |requests: Value| {
        let mut pod = asking("critical", requests);
        pod.spec.as_mut().unwrap().priority = Some(SYSTEM_CRITICAL_PRIORITY);
        pod
    };
    let (large, small) = (
        asking("large", json!({"cpu": "1200m"})),
        asking("small", json!({"cpu": "500m"})),
    );
    let idle = pod("idle", json!({}));
    let table = [
        (json!({"cpu": "300m"}), vec![&large, &small], "admitted"),
        (
            json!({"cpu": "700m"}),
            vec![&large, &small],
            "preempts small",
        ),
        (
            json!({"cpu": "1400m"}),
            vec![&large, &small],
            "preempts large",
        ),
        (
            json!({"cpu": "2"}),
            vec![&large, &small],
            "preempts large small",
        ),
        (json!({}), vec![&large, &small, &idle], "preempts idle"),
    ];
    for (requests, others, expected) in table {
        assert_eq!(
            reason(&critical(requests.clone()), &others, &calm()),
            expected,
            "{requests}"
        );
    }
    let other = critical(json!({"cpu": "2"}));
    let none = reason(&critical(json!({"cpu": "1"})), &[&other], &calm());
    assert!(
        none.starts_with("UnexpectedAdmissionError: Unexpected error while"),
        "{none}"
    );
    assert!(
        none.ends_with(
            "no set of running pods found to reclaim resources: [(res: cpu, q: 1000), ]"
        ),
        "{none}"
    );
    let mut elsewhere = critical(json!({"cpu": "2"}));
    elsewhere.spec.as_mut().unwrap().node_name = Some("edge-2".into());
    assert!(
        reason(&elsewhere, &[&large], &calm()).starts_with("NodeName"),
        "room would not help it"
    );
}
