//! Rows 97 to 134: Nodes and the rest.

use serde_json::{Value, json};

use super::*;

pub(super) fn nodes() -> Vec<Row> {
    use Expect::{Allow, Deny, Narrowed, Wider};
    use Verb::{Get, List};
    const N1: &str = "/core/v1/nodes/null/n1";
    vec![
        row(
            97,
            "the Node",
            vec![
                (meta(Get, N1), Allow),
                (hub(Upstream::query("", &T::Node, "n1")), Allow),
            ],
        ),
        row(
            98,
            "other Nodes",
            vec![
                (meta(Get, "/core/v1/nodes/null/n2"), Deny),
                (hub(Upstream::query("", &T::Node, "n2")), Deny),
                (meta(List, "/core/v1/nodes/null/null"), Narrowed(OWN_ALONE)),
                (meta(List, "/core/v1/nodes/null/n2"), Narrowed(OWN_ALONE)),
            ],
        ),
        row(
            99,
            "a Node",
            vec![
                (
                    new_node(
                        "n9",
                        "n9",
                        json!({"kubernetes.io/hostname": "n9", "example.com/y": ""}),
                    ),
                    Allow,
                ),
                (new_node("n1", "n10", json!({})), Deny),
            ],
        ),
        row(
            100,
            "a Node with taints",
            vec![(new_node("n8", "n8", json!({})), Allow)],
        ),
        row(
            101,
            "a restricted label",
            vec![(
                new_node("n7", "n7", json!({"node-restriction.kubernetes.io/x": ""})),
                Deny,
            )],
        ),
        row(
            102,
            "a role",
            vec![
                (
                    new_node(
                        "n7",
                        "n7",
                        json!({"node-role.kubernetes.io/control-plane": ""}),
                    ),
                    Deny,
                ),
                (
                    new_node(
                        "n7",
                        "n7",
                        json!({"node-role.kubernetes.io/edge": "", "node-role.kubernetes.io/agent": ""}),
                    ),
                    Wider(
                        "every edge node of KubeEdge registers with these two roles, and no others",
                    ),
                ),
            ],
        ),
        row(
            103,
            "a kubelet's labels",
            vec![(
                new_node(
                    "n6",
                    "n6",
                    json!({"kubelet.kubernetes.io/x": "", "example.com/y": ""}),
                ),
                Allow,
            )],
        ),
    ]
}

pub(super) fn node_patches() -> Vec<Row> {
    use Expect::{Deny, Stricter};
    use Verb::Patch;
    const N1: &str = "/core/v1/nodes/null/n1";
    vec![
        row(
            104,
            "taints",
            vec![
                (
                    node_patch(
                        "n1",
                        json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
                    ),
                    Deny,
                ),
                (part(Patch, N1, "", json!({"spec": {"taints": []}})), Deny),
            ],
        ),
        row(
            105,
            "unschedulable",
            vec![(
                node_patch("n1", json!({"spec": {"unschedulable": false}})),
                Stricter("a node changes its status, and nothing that says what may run there"),
            )],
        ),
        row(
            106,
            "owners",
            vec![(
                node_patch("n1", json!({"metadata": {"ownerReferences": [owner()]}})),
                Deny,
            )],
        ),
        row(
            107,
            "a label of Kubernetes",
            vec![
                (
                    node_patch("n1", json!({"metadata": {"labels": {"k8s.io/x": "y"}}})),
                    Deny,
                ),
                (
                    node_patch(
                        "n1",
                        json!({"metadata": {"labels": {"kubernetes.io/hostname": "n2"}}}),
                    ),
                    Deny,
                ),
                (
                    node_patch(
                        "n1",
                        json!({"metadata": {"labels": {"node-restriction.kubernetes.io/x": "y"}}}),
                    ),
                    Deny,
                ),
            ],
        ),
        row(
            108,
            "another Node, and annotations of the own one that administrators write",
            [json!("tenant"), Value::Null]
                .into_iter()
                .flat_map(|value| {
                    let key = "node-restriction.kubernetes.io/rule-namespaces";
                    let patch = json!({"metadata": {"annotations": {key: value}}});
                    [node_patch("n1", patch.clone()), part(Patch, N1, "", patch)]
                })
                .map(|action| {
                    (
                        action,
                        Stricter("it says whose rules may use the node (docs/rules.md)"),
                    )
                })
                .chain([(
                    node_patch("n2", json!({"metadata": {"annotations": {"a": "b"}}})),
                    Deny,
                )])
                .collect(),
        ),
    ]
}

pub(super) fn own_status() -> Vec<Row> {
    use Expect::{Allow, Code, Deny};
    use Verb::{Delete, Get, List};
    const N1: &str = "/core/v1/nodes/null/n1";
    vec![
        row(
            109,
            "the Node's status",
            vec![
                (
                    node_patch("n1", json!({"status": {"phase": "Running"}})),
                    Allow,
                ),
                (node_patch("n2", json!({"status": {}})), Deny),
            ],
        ),
        row(
            110,
            "the Node's status is not read",
            vec![(part(Get, N1, "status", Value::Null), Deny)],
        ),
        row(111, "the end of the Node", vec![(meta(Delete, N1), Deny)]),
        row(
            112,
            "leases",
            vec![
                (lease(Change::Insert, "kube-node-lease", "n1"), Allow),
                (lease(Change::Insert, "kube-node-lease", "n2"), Deny),
                (own_lease(json!({"finalizers": ["example.com/hold"]})), Deny),
                (own_lease(json!({"finalizers": "example.com/hold"})), Deny),
                // allowed to the node; the API wants a resourceVersion
                (own_lease(json!({"finalizers": []})), Code(422)),
                (
                    own_lease(json!({"ownerReferences": [lease_owner("Node", "n1", false)]})),
                    Code(422),
                ),
                (
                    own_lease(json!({"ownerReferences": [lease_owner("Node", "n1", true)]})),
                    Deny,
                ),
                (
                    own_lease(json!({"ownerReferences": [lease_owner("Node", "n2", false)]})),
                    Deny,
                ),
                (
                    own_lease(json!({"ownerReferences": [lease_owner("Pod", "n1", false)]})),
                    Deny,
                ),
            ],
        ),
        row(
            113,
            "other leases",
            vec![
                (lease(Change::Update, "kube-node-lease", "n2"), Deny),
                (lease(Change::Update, "ns", "n1"), Deny),
                (lease(Change::Insert, "kube-system", "n1"), Deny),
            ],
        ),
        row(
            114,
            "all leases",
            vec![(
                meta(List, "/coordination.k8s.io/v1/leases/kube-node-lease/null"),
                Deny,
            )],
        ),
    ]
}

pub(super) fn others() -> Vec<Row> {
    use Expect::{Allow, Code, Deny, Stricter, Wider};
    use Verb::{Delete, Get, List};
    let event = || json!({"metadata": {"name": "e1", "namespace": "default"}, "involvedObject": {"kind": "Node", "name": "n1"}, "source": {"host": "n1"}});
    vec![
        row(
            115,
            "csinodes",
            vec![
                (
                    meta(Get, "/storage.k8s.io/v1/csinodes/null/n1"),
                    Stricter(NO_CSI),
                ),
                (meta(Get, "/storage.k8s.io/v1/csinodes/null/n2"), Deny),
            ],
        ),
        row(
            116,
            "services",
            vec![(meta(List, "/core/v1/services/null/null"), Allow)],
        ),
        row(
            117,
            "endpoints",
            vec![(meta(List, "/core/v1/endpoints/null/null"), Wider(PROXIES))],
        ),
        row(
            118,
            "endpointslices, namespaces",
            vec![
                (
                    meta(List, "/discovery.k8s.io/v1/endpointslices/null/null"),
                    Wider(PROXIES),
                ),
                (meta(List, "/core/v1/namespaces/null/null"), Deny),
            ],
        ),
        row(
            119,
            "events: nobody is answered",
            vec![
                (
                    hub(Upstream::put(
                        Change::Insert,
                        "default",
                        &T::Event,
                        "e1",
                        event(),
                    )),
                    Code(0),
                ),
                (meta(Delete, "/core/v1/events/default/e1"), Deny),
            ],
        ),
    ]
}

pub(super) fn certificates() -> Vec<Row> {
    use Expect::{Allow, Deny};
    use Verb::{Get, Update};
    const SERVING: &str = "kubernetes.io/kubelet-serving";
    vec![
        row(
            120,
            "a serving certificate",
            vec![
                (csr("csr1", "n1", SERVING), Allow),
                (csr("csr2", "n2", SERVING), Deny),
            ],
        ),
        row(
            121,
            "a client certificate needs approval",
            vec![(
                csr("csr3", "n2", "kubernetes.io/kube-apiserver-client"),
                Allow,
            )],
        ),
        row(
            122,
            "approval",
            vec![(
                NodeAction::Meta(
                    Update,
                    "/certificates.k8s.io/v1/certificatesigningrequests/null/csr1",
                    "approval",
                    json!({"metadata": {"name": "csr1"}}),
                ),
                Deny,
            )],
        ),
        elsewhere(
            123,
            "approval of serving certificates",
            "wider: `csrapproving` approves what the cloud knows of the node, \
            cloudsim/src/controllers/certificates/approval.rs; nothing beside the cloud could know it",
        ),
        elsewhere(
            124,
            "serving certificates are of nodes and for something",
            "wire/src/enroll/serving.rs and cloudsim/src/controllers/certificates/tests.rs",
        ),
        elsewhere(
            125,
            "approval of client certificates",
            "not here: nodes get theirs at /edge.crt, cloudsim/src/enrolment.rs",
        ),
        elsewhere(
            126,
            "client certificates have no names",
            "not here: wire/src/enroll/ca.rs signs none into them, whatever is asked for",
        ),
        row(
            127,
            "pod certificates",
            vec![(
                meta(
                    Get,
                    "/certificates.k8s.io/v1beta1/podcertificaterequests/ns/p1",
                ),
                Deny,
            )],
        ),
    ]
}

pub(super) fn hubs() -> Vec<Row> {
    use Expect::{Code, Deny};
    let groups = &["system:nodes"];
    vec![
        row(
            128,
            "CloudHub: an unrelated ConfigMap, always checked",
            vec![(map("c2"), Deny)],
        ),
        elsewhere(
            129,
            "CloudHub: podstatus without name",
            "not here: EdgeCore since 1.11 sends patches, and what this cloud does not handle is left out",
        ),
        elsewhere(
            130,
            "CloudHub: the header names another node",
            "tests/tests/world/bad_reach.rs",
        ),
        elsewhere(
            131,
            "/edge.crt: a certificate for another node",
            "tests/tests/world/bad_enrolment.rs: a_node_renews_its_own_certificate_and_nobody_elses",
        ),
        elsewhere(
            132,
            "MetaServer: a token that nobody has signed",
            "the agent's: agent/src/metamanager/server/access",
        ),
        row(
            133,
            "a node's name without its group",
            vec![(
                NodeAction::As(
                    "system:node:n1",
                    &[],
                    "GET",
                    "/api/v1/namespaces/ns/secrets/s1",
                ),
                Code(403),
            )],
        ),
        row(
            134,
            "a node without a name",
            vec![(
                NodeAction::As(
                    "system:node:",
                    groups,
                    "POST",
                    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
                ),
                Code(403),
            )],
        ),
    ]
}
