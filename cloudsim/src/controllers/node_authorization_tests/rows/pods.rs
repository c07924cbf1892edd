//! Rows 76 to 96: pods.

use serde_json::{Value, json};

use super::{cluster::ephemeral, *};

pub(super) fn pods() -> Vec<Row> {
    use Expect::{Allow, Code, Deny, Narrowed};
    use Verb::{Create, Get, List, Watch};
    const PODS: &str = "/core/v1/pods/null/null";
    const P1: &str = "/core/v1/pods/ns/p1";
    let of = |selector: &str| json!({"fieldSelector": selector});
    let ordinary = json!({"metadata": {"name": "plain1"}, "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}});
    vec![
        row(
            76,
            "a pod",
            vec![
                (meta(Get, P1), Allow),
                (meta(Get, "/core/v1/pods/ns/p2"), Deny),
            ],
        ),
        row(
            77,
            "the node's pods",
            vec![(part(List, PODS, "", of("spec.nodeName=n1")), Allow)],
        ),
        row(
            78,
            "all pods, and another node's",
            vec![
                (meta(List, PODS), Narrowed(OWN_ALONE)),
                (
                    part(List, PODS, "", of("spec.nodeName=n2")),
                    Narrowed(OWN_ALONE),
                ),
                // a name, or a part, must not make one object of the list
                (meta(List, "/core/v1/pods/ns/p2"), Narrowed(OWN_ALONE)),
                (
                    part(List, "/core/v1/pods/ns/p2", "log", json!({})),
                    Code(400),
                ),
                (
                    part(List, "/core/v1/pods/ns/p1", "status", json!({})),
                    Code(400),
                ),
                (
                    part(Watch, "/core/v1/pods/ns/p2", "status", json!({})),
                    Code(400),
                ),
            ],
        ),
        row(
            79,
            "a pod in a list",
            vec![(
                part(List, "/core/v1/pods/ns/null", "", of("metadata.name=p1")),
                Allow,
            )],
        ),
        row(
            80,
            "an ordinary pod",
            vec![
                (new_pod(ordinary.clone()), Deny),
                (part(Create, "/core/v1/pods/ns/null", "", ordinary), Deny),
            ],
        ),
        row(
            81,
            "a mirror pod",
            vec![(new_pod(mirror("mirror1")), Allow)],
        ),
    ]
}

pub(super) fn mirrors() -> Vec<Row> {
    use Expect::{Allow, Deny};
    let mut second = owner();
    second["uid"] = "$nodes/n2".into();
    vec![
        row(
            82,
            "a mirror pod on another node",
            vec![(mirror_with("x", "/spec/nodeName", json!("n2")), Deny)],
        ),
        row(
            83,
            "a mirror pod of nobody, and of two",
            vec![
                (
                    mirror_with("x", "/metadata/ownerReferences", json!([])),
                    Deny,
                ),
                (
                    mirror_with("x", "/metadata/ownerReferences", json!([owner(), second])),
                    Deny,
                ),
            ],
        ),
        row(
            84,
            "a mirror pod of another Node",
            vec![(
                mirror_with("x", "/metadata/ownerReferences/0/uid", json!("$nodes/n2")),
                Deny,
            )],
        ),
        row(
            85,
            "a mirror pod without controller",
            vec![(
                mirror_with("x", "/metadata/ownerReferences/0/controller", json!(false)),
                Deny,
            )],
        ),
        row(
            86,
            "a mirror pod that keeps its Node",
            vec![(
                mirror_with(
                    "x",
                    "/metadata/ownerReferences/0/blockOwnerDeletion",
                    json!(true),
                ),
                Deny,
            )],
        ),
        row(
            87,
            "a mirror pod with an account",
            vec![(
                mirror_with("x", "/spec/serviceAccountName", json!("sa1")),
                Deny,
            )],
        ),
        row(
            88,
            "a mirror pod with volumes of the API",
            [
                json!({"secret": {"secretName": "s2"}}),
                json!({"persistentVolumeClaim": {"claimName": "v2"}}),
                json!({"csi": {"driver": "d"}}),
            ]
            .into_iter()
            .map(|mut volume| {
                volume["name"] = "v".into();
                (mirror_with("x", "/spec/volumes", json!([volume])), Deny)
            })
            .collect(),
        ),
        row(
            89,
            "a mirror pod with volumes of the machine",
            vec![(
                mirror_with(
                    "mirror2",
                    "/spec/volumes",
                    json!([
                        {"name": "a", "hostPath": {"path": "/a"}}, {"name": "b", "emptyDir": {}},
                        {"name": "c", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                    ]),
                ),
                Allow,
            )],
        ),
    ]
}

pub(super) fn parts() -> Vec<Row> {
    use Expect::{Allow, Code, Deny};
    use Verb::{Patch, Update};
    const P1: &str = "/core/v1/pods/ns/p1";
    let gone = |name: &'static str, uid: &'static str| hub(Upstream::pod_delete("ns", name, uid));
    vec![
        row(
            90,
            "the end of a pod",
            vec![
                (gone("delete1", "$pods/delete1"), Allow),
                (gone("p2", "$pods/p2"), Deny),
                (gone("absent", "u"), Code(404)),
                // another pod has the name by now
                (gone("p2", "replaced"), Code(404)),
            ],
        ),
        row(
            91,
            "a pod itself",
            vec![
                (
                    part(Update, P1, "", json!({"metadata": {"name": "p1"}})),
                    Deny,
                ),
                (
                    part(Patch, P1, "", json!({"metadata": {"labels": {"a": "b"}}})),
                    Deny,
                ),
            ],
        ),
        row(
            92,
            "a pod's status",
            vec![
                (
                    pod_patch(
                        "p1",
                        json!({"metadata": {"uid": "$pods/p1"}, "status": {"phase": "Running"}}),
                    ),
                    Allow,
                ),
                (
                    pod_patch("p2", json!({"status": {"phase": "Failed"}})),
                    Code(404),
                ),
                // without a uid, the answer does not tell a pod of another node from none
                (pod_patch("absent", json!({})), Code(404)),
                (pod_patch("p2", json!({})), Code(404)),
                (
                    pod_patch("p2", json!({"metadata": {"uid": "replaced"}, "status": {}})),
                    Code(404),
                ),
            ],
        ),
        row(
            93,
            "a pod's labels and more with its status",
            ["labels", "annotations"]
                .into_iter()
                .map(|field| {
                    (
                        pod_patch("p1", json!({"metadata": {field: {"a": "b"}}, "status": {}})),
                        Deny,
                    )
                })
                .chain([(
                    pod_patch("p1", json!({"metadata": {"finalizers": ["a/b"]}})),
                    Deny,
                )])
                .collect(),
        ),
        row(
            94,
            "a pod's resource claims",
            vec![(
                pod_patch(
                    "p1",
                    json!({"status": {"resourceClaimStatuses": [{"name": "c"}]}}),
                ),
                Deny,
            )],
        ),
    ]
}

pub(super) fn subresources() -> Vec<Row> {
    use Expect::{Allow, Deny};
    use Verb::{Create, Get, Patch};
    const P1: &str = "/core/v1/pods/ns/p1";
    vec![
        row(
            95,
            "eviction",
            vec![
                (
                    part(
                        Create,
                        "/core/v1/pods/ns/evict1",
                        "eviction",
                        json!({"metadata": {"name": "evict1"}}),
                    ),
                    Allow,
                ),
                (
                    part(
                        Create,
                        "/core/v1/pods/ns/p2",
                        "eviction",
                        json!({"metadata": {"name": "p2"}}),
                    ),
                    Deny,
                ),
            ],
        ),
        row(
            96,
            "other parts of a pod",
            vec![
                (part(Create, P1, "exec", Value::Null), Deny),
                (part(Get, P1, "log", Value::Null), Deny),
                (
                    part(Create, P1, "binding", json!({"target": {"name": "n1"}})),
                    Deny,
                ),
                (part(Patch, P1, "ephemeralcontainers", ephemeral()), Deny),
                (part(Patch, P1, "resize", json!({})), Deny),
            ],
        ),
    ]
}
