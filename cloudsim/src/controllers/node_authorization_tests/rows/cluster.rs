//! The cluster of the rows.

use serde_json::{Value, json};

/// An object and its collection.
type Made = (&'static str, Value);

/// The objects of the cluster, in the order of their creation.
pub(in super::super) fn objects() -> Vec<Made> {
    [named_objects(), volumes(), pods(), roles()].concat()
}

fn named_object(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn claim() -> Value {
    json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}})
}

fn named_objects() -> Vec<Made> {
    let mut all = vec![
        ("/api/v1/namespaces", named_object("ns")),
        ("/api/v1/namespaces", named_object("other")),
    ];
    let mut n1 = named_object("n1");
    n1["metadata"]["annotations"] = json!({"node-restriction.kubernetes.io/rule-namespaces": "ns"});
    all.extend([n1, named_object("n2")].map(|node| ("/api/v1/nodes", node)));
    for name in ["sa1", "sa2", "shared"] {
        let mut account = named_object(name);
        if name == "sa1" {
            account["secrets"] = json!([{"name": "listed1"}]);
        }
        all.push(("/api/v1/namespaces/ns/serviceaccounts", account));
    }
    for name in [
        "s1",
        "s2",
        "pull1",
        "init1",
        "ephemeral1",
        "listed1",
        "publish1",
        "expand1",
        "done1",
        "gone1",
    ] {
        all.push(("/api/v1/namespaces/ns/secrets", named_object(name)));
    }
    all.push(("/api/v1/namespaces/other/secrets", named_object("s1")));
    for name in ["c1", "c2", "kube-root-ca.crt", "unscheduled"] {
        all.push(("/api/v1/namespaces/ns/configmaps", named_object(name)));
    }
    all
}

fn volumes() -> Vec<Made> {
    let mut all = Vec::new();
    for name in ["v1", "v2", "p1-scratch"] {
        let object = json!({"metadata": {"name": name}, "spec": claim()});
        all.push(("/api/v1/namespaces/ns/persistentvolumeclaims", object));
    }
    for (name, of) in [
        ("pv1", json!({"namespace": "ns", "name": "v1"})),
        ("free", Value::Null),
    ] {
        let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "claimRef": of,
            "csi": {"driver": "d", "volumeHandle": "h",
                "nodePublishSecretRef": {"namespace": "ns", "name": "publish1"}, "controllerExpandSecretRef": {"namespace": "ns", "name": "expand1"}}});
        all.push((
            "/api/v1/persistentvolumes",
            json!({"metadata": {"name": name}, "spec": spec}),
        ));
    }
    for (name, node) in [("va1", "n1"), ("va2", "n2")] {
        let spec =
            json!({"attacher": "d", "nodeName": node, "source": {"persistentVolumeName": "pv1"}});
        all.push((
            "/apis/storage.k8s.io/v1/volumeattachments",
            json!({"metadata": {"name": name}, "spec": spec}),
        ));
    }
    all
}

fn container(fields: &Value) -> Value {
    let mut container = json!({"name": "c", "image": "i"});
    container
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    container
}

fn pod(name: &str, node: &str, account: &str, more: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {
        "nodeName": node, "serviceAccountName": account, "containers": [container(&json!({}))]}});
    pod["spec"]
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    pod
}

fn pods() -> Vec<Made> {
    let p1 = json!({
        "imagePullSecrets": [{"name": "pull1"}],
        "initContainers": [container(&json!({"name": "i", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "init1", "key": "k"}}}]}))],
        "containers": [container(&json!({"envFrom": [{"configMapRef": {"name": "c1"}}]}))],
        "volumes": [
            {"name": "a", "secret": {"secretName": "s1"}},
            {"name": "b", "persistentVolumeClaim": {"claimName": "v1"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim()}}},
            {"name": "d", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}},
                {"configMap": {"name": "kube-root-ca.crt"}}]}},
        ],
    });
    let p2 = json!({"volumes": [{"name": "a", "secret": {"secretName": "s2"}}, {"name": "b", "configMap": {"name": "c2"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "v2"}}]});
    let secret_volume =
        |name: &str| json!({"volumes": [{"name": "a", "secret": {"secretName": name}}]});
    let mut unscheduled = pod(
        "unscheduled",
        "",
        "sa1",
        &json!({"volumes": [{"name": "a", "configMap": {"name": "unscheduled"}}]}),
    );
    unscheduled["spec"]
        .as_object_mut()
        .unwrap()
        .remove("nodeName");
    let all = [
        pod("p1", "n1", "sa1", &p1),
        pod("p2", "n2", "sa2", &p2),
        pod("done1", "n1", "sa1", &secret_volume("done1")),
        pod("gone1", "n1", "sa1", &secret_volume("gone1")),
        pod("delete1", "n1", "sa1", &json!({})),
        pod("evict1", "n1", "sa1", &json!({})),
        pod("shared1", "n1", "shared", &json!({})),
        pod("shared2", "n2", "shared", &json!({})),
        unscheduled,
    ];
    all.map(|pod| ("/api/v1/namespaces/ns/pods", pod)).into()
}

fn roles() -> Vec<Made> {
    let rbac = "rbac.authorization.k8s.io";
    let rule = json!({"apiGroups": [""], "resources": ["granted"], "resourceNames": ["sa1"],
        "verbs": ["request-serviceaccounts-token-audience"]});
    // a grant to nodes that NodeRestriction overrides
    let more = json!({"apiGroups": ["", "coordination.k8s.io"], "resources": ["pods", "nodes", "leases", "serviceaccounts", "serviceaccounts/token"],
        "verbs": ["create", "update", "patch", "delete"]});
    vec![
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            json!({"metadata": {"name": "nodes"}, "rules": [rule, more]}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            json!({"metadata": {"name": "nodes"}, "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "nodes"},
                "subjects": [{"apiGroup": rbac, "kind": "Group", "name": "system:nodes"}]}),
        ),
    ]
}

/// The patch that adds p1's ephemeral container.
pub(in super::super) fn ephemeral() -> Value {
    json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "i",
        "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "ephemeral1", "key": "k"}}}]}]}})
}
