//! Rows 1 to 41: ConfigMaps, Secrets and volumes.

use serde_json::{Value, json};
use wire::{Change, ResourceType as T, Upstream, application::Verb};

use super::*;

pub(super) fn secrets_and_maps() -> Vec<Row> {
    use Expect::{Allow, Deny, Stricter};
    use Verb::{Get, List, Watch};
    let by_name = || json!({"fieldSelector": "metadata.name=s1"});
    vec![
        row(
            1,
            "imagePullSecret",
            vec![
                (secret("pull1"), Allow),
                (secret("s1"), Allow),
                (meta(Get, "/core/v1/secrets/ns/s1"), Allow),
            ],
        ),
        row(
            2,
            "env of an init container",
            vec![(secret("init1"), Allow)],
        ),
        row(
            3,
            "env of an ephemeral container",
            vec![(secret("ephemeral1"), Allow)],
        ),
        row(
            4,
            "secrets by name",
            vec![
                (
                    part(List, "/core/v1/secrets/ns/null", "", by_name()),
                    Stricter(ONE_BY_ONE),
                ),
                (
                    part(Watch, "/core/v1/secrets/ns/null", "", by_name()),
                    Stricter(ONE_BY_ONE),
                ),
            ],
        ),
        row(
            5,
            "all secrets",
            vec![(meta(List, "/core/v1/secrets/ns/null"), Deny)],
        ),
        row(
            6,
            "secrets by name in all namespaces",
            vec![(
                part(Watch, "/core/v1/secrets/null/null", "", by_name()),
                Deny,
            )],
        ),
        row(
            7,
            "another node's secret",
            vec![
                (secret("s2"), Deny),
                (meta(Get, "/core/v1/secrets/ns/s2"), Deny),
            ],
        ),
        row(
            8,
            "the same name elsewhere",
            vec![(hub(Upstream::query("other", &T::Secret, "s1")), Deny)],
        ),
        row(
            9,
            "listed by the account alone",
            vec![(secret("listed1"), Deny)],
        ),
    ]
}

pub(super) fn more_secrets() -> Vec<Row> {
    use Expect::{Allow, Code, Deny, Stricter};
    use Verb::{Create, Delete, Get, List, Update};
    let body = || json!({"metadata": {"name": "s1"}});
    let mut named = mirror("named1");
    named["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "s2"}}]);
    vec![
        row(
            10,
            "secrets are read alone",
            vec![
                (part(Create, "/core/v1/secrets/ns/null", "", body()), Deny),
                (part(Update, "/core/v1/secrets/ns/s1", "", body()), Deny),
                (meta(Delete, "/core/v1/secrets/ns/s1"), Deny),
                (
                    hub(Upstream::put(
                        Change::Update,
                        "ns",
                        &T::Secret,
                        "s1",
                        body(),
                    )),
                    Code(405),
                ),
            ],
        ),
        row(
            11,
            "a volume's secret for nodes",
            vec![(secret("publish1"), Stricter(NO_CSI))],
        ),
        row(
            12,
            "a volume's secret for controllers",
            vec![(secret("expand1"), Deny)],
        ),
        row(
            13,
            "of a pod that has ended",
            vec![(secret("done1"), Allow)],
        ),
        row(14, "of a pod that is gone", vec![(secret("gone1"), Deny)]),
        row(
            15,
            "of a mirror pod",
            vec![
                (
                    NodeAction::Api("POST", "/api/v1/namespaces/ns/pods", named),
                    Code(403),
                ),
                (secret("s2"), Deny),
            ],
        ),
        row(
            16,
            "envFrom",
            vec![
                (map("c1"), Allow),
                (meta(Get, "/core/v1/configmaps/ns/c1"), Allow),
            ],
        ),
        row(17, "projected", vec![(map("kube-root-ca.crt"), Allow)]),
        row(
            18,
            "of a pod without a node",
            vec![(map("unscheduled"), Deny)],
        ),
        row(
            19,
            "all configmaps",
            vec![(meta(List, "/core/v1/configmaps/null/null"), Deny)],
        ),
        row(
            20,
            "configmaps are read alone",
            vec![(
                part(
                    Update,
                    "/core/v1/configmaps/ns/c1",
                    "",
                    json!({"metadata": {"name": "c1"}}),
                ),
                Deny,
            )],
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "one table or one story")]
pub(super) fn volumes() -> Vec<Row> {
    use Expect::{Allow, Deny, Stricter};
    use Verb::{Get, List, Patch, Update};
    const CLAIM: &str = "/core/v1/persistentvolumeclaims/ns/v1";
    let cluster = |kind: T, name: &str| hub(Upstream::query("", &kind, name));
    let resized = || json!({"status": {"capacity": {"storage": "2Gi"}}});
    vec![
        row(
            21,
            "a pod's claim",
            vec![(query(T::PersistentVolumeClaim, "v1"), Allow)],
        ),
        row(
            22,
            "a claim that is made for a pod",
            vec![(query(T::PersistentVolumeClaim, "p1-scratch"), Allow)],
        ),
        row(
            23,
            "all claims",
            vec![(meta(List, "/core/v1/persistentvolumeclaims/ns/null"), Deny)],
        ),
        row(
            24,
            "a claim's spec",
            vec![(
                part(Update, CLAIM, "", json!({"metadata": {"name": "v1"}})),
                Deny,
            )],
        ),
        row(
            25,
            "a claim's status is not read",
            vec![(part(Get, CLAIM, "status", Value::Null), Deny)],
        ),
        row(
            26,
            "a claim's capacity",
            vec![(part(Patch, CLAIM, "status", resized()), Stricter(NO_RESIZE))],
        ),
        row(
            27,
            "a claim's phase and finalizers",
            vec![
                (
                    part(Patch, CLAIM, "status", json!({"status": {"phase": "Lost"}})),
                    Deny,
                ),
                (
                    part(
                        Patch,
                        CLAIM,
                        "status",
                        json!({"metadata": {"finalizers": []}}),
                    ),
                    Deny,
                ),
            ],
        ),
        row(
            28,
            "another node's claim",
            vec![(
                part(
                    Patch,
                    "/core/v1/persistentvolumeclaims/ns/v2",
                    "status",
                    resized(),
                ),
                Deny,
            )],
        ),
        row(
            29,
            "a claim's volume",
            vec![(cluster(T::PersistentVolume, "pv1"), Allow)],
        ),
        row(
            30,
            "a volume without a claim",
            vec![(cluster(T::PersistentVolume, "free"), Deny)],
        ),
        row(
            31,
            "all volumes",
            vec![(meta(List, "/core/v1/persistentvolumes/null/null"), Deny)],
        ),
        row(
            32,
            "attachments",
            vec![
                (cluster(T::VolumeAttachment, "va1"), Allow),
                (cluster(T::VolumeAttachment, "va2"), Deny),
            ],
        ),
        row(
            33,
            "all attachments",
            vec![(
                meta(List, "/storage.k8s.io/v1/volumeattachments/null/null"),
                Deny,
            )],
        ),
    ]
}

pub(super) fn devices() -> Vec<Row> {
    use Expect::{Allow, Deny, Stricter};
    use Verb::{Create, Delete, Get, List, Update};
    let slice = |node: &str| json!({"metadata": {"name": "slice"}, "spec": {"driver": "d", "nodeName": node}});
    const SLICES: &str = "/resource.k8s.io/v1/resourceslices/null/null";
    const SLICE: &str = "/resource.k8s.io/v1/resourceslices/null/slice";
    vec![
        row(
            34,
            "resource claims",
            vec![(
                meta(Get, "/resource.k8s.io/v1/resourceclaims/ns/rc1"),
                Stricter(NO_DRA),
            )],
        ),
        row(
            35,
            "a resource slice",
            vec![(part(Create, SLICES, "", slice("n1")), Stricter(NO_DRA))],
        ),
        row(
            36,
            "another node's resource slice",
            vec![(part(Create, SLICES, "", slice("n2")), Deny)],
        ),
        row(
            37,
            "own resource slices",
            vec![
                (meta(Get, SLICE), Stricter(NO_DRA)),
                (part(Update, SLICE, "", slice("n1")), Stricter(NO_DRA)),
            ],
        ),
        row(
            38,
            "another node's resource slices",
            vec![(meta(Get, SLICE), Deny), (meta(Delete, SLICE), Deny)],
        ),
        row(
            39,
            "resource slices of a node",
            vec![
                (
                    part(
                        List,
                        SLICES,
                        "",
                        json!({"fieldSelector": "spec.nodeName=n1"}),
                    ),
                    Stricter(NO_DRA),
                ),
                (meta(List, SLICES), Deny),
            ],
        ),
        row(
            40,
            "accounts of pods",
            vec![
                (meta(Get, "/core/v1/serviceaccounts/ns/sa1"), Allow),
                (meta(Get, "/core/v1/serviceaccounts/ns/sa2"), Deny),
            ],
        ),
        row(
            41,
            "all accounts",
            vec![(meta(List, "/core/v1/serviceaccounts/ns/null"), Deny)],
        ),
    ]
}
