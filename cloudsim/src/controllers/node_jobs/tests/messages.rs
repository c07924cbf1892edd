//! Jobs as clients of KubeEdge create them, in both versions, and the messages that nodes get for them.

use kube::{
    Api, ResourceExt,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use objectstore::MemoryStore;
use serde_json::{Value, json};

use super::world::{Behaviour, UPGRADE, World, upgrade};
use crate::controllers::test_api::TestApi;

/// Messages of `CloudCore` 1.23.1, without their ids and times.
const RECORDED: [&str; 3] = [
    r#"{"header":{},"route":{"source":"taskmanager","group":"taskmanager","operation":"Check","resource":"operations.kubeedge.io/v1alpha2/nodeupgradejob/rec-missing/node/ea-1"},"content":{"version":"v1.23.1","timeoutSeconds":120,"labelSelector":{"matchLabels":{"node-role.kubernetes.io/edge":""}},"image":"127.0.0.1:1/kubeedge/installation-package","imageDigestGatter":null,"concurrency":1,"checkItems":["mem"],"failureTolerate":"0.1","requireConfirmation":true}}"#,
    r#"{"header":{},"route":{"source":"taskmanager","group":"taskmanager","operation":"Check","resource":"operations.kubeedge.io/v1alpha2/imageprepulljob/rec-pull/node/ea-1"},"content":{"imagePrePullTemplate":{"images":["docker.io/e2e/busybox:1"],"nodeNames":["ea-1"],"checkItems":["mem"],"failureTolerate":"0.1","concurrency":1,"timeoutSeconds":120,"retryTimes":1}}}"#,
    r#"{"header":{},"route":{"source":"taskmanager","group":"taskmanager","operation":"Check","resource":"operations.kubeedge.io/v1alpha2/configupdatejob/rec.config/node/ea-1"},"content":{"nodeNames":["ea-1"],"timeoutSeconds":120,"concurrency":1,"updateFields":{"modules.edgeHub.heartbeat":"21","modules.edgeStream.enable":"true"},"failureTolerate":"0.1"}}"#,
];
const KINDS: [&str; 3] = [UPGRADE, "ImagePrePullJob", "ConfigUpdateJob"];

#[tokio::test]
async fn messages_are_those_of_cloudcore() {
    for (kind, recorded) in KINDS.into_iter().zip(RECORDED) {
        let recorded: Value = serde_json::from_str(recorded).unwrap();
        let world = World::start(&MemoryStore::new(), false);
        world.node("ea-1", true, true).await;
        world.connect("ea-1", Behaviour::Succeeds);
        let resource = recorded["route"]["resource"].as_str().unwrap();
        let name = resource.split('/').nth(3).unwrap();
        let mut spec = recorded["content"].clone();
        spec.as_object_mut().unwrap().remove("imageDigestGatter");
        let job = json!({"metadata": {"name": name}, "spec": spec});
        world.create(kind, job).await;
        world.wait(kind, name, "Completed: Successful").await;
        let sent = world.sent.lock().clone();
        assert_eq!(sent.len(), 1, "{sent:?}");
        let mut sent: Value = serde_json::from_str(&wire::json::encode(&sent[0])).unwrap();
        let header = sent["header"].as_object_mut().unwrap();
        assert!(header.remove("msg_id").is_some() && header.remove("timestamp").is_some());
        assert_eq!(sent, recorded);
    }
}

#[tokio::test]
async fn jobs_have_any_name_but_node() {
    let world = World::start(&MemoryStore::new(), true);
    world.node("edge-1", true, true).await;
    world.connect("edge-1", Behaviour::Succeeds);
    let longest = ["n".repeat(63).as_str(); 4].join(".")[..253].to_owned();
    for name in ["a.b.c", "node-1", "node.node", &longest] {
        let job = upgrade(name, json!({"nodeNames": ["edge-1"]}));
        world.create(UPGRADE, job).await;
        world.wait(UPGRADE, name, "Completed: Successful").await;
    }
    let job = upgrade("node", json!({"nodeNames": ["edge-1"]}));
    world.create(UPGRADE, job).await;
    let status = world.wait(UPGRADE, "node", "Failure: ").await;
    let why = status["reason"].as_str().unwrap();
    assert!(why.starts_with("metadata.name: "), "{why}");
}

fn old(world: &World, kind: &str) -> Api<DynamicObject> {
    let objects = &world.api;
    objects.objects("operations.kubeedge.io/v1alpha1", kind, "")
}

/// Reports whether an object has all fields of another.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            let mut fields = part.iter();
            fields.all(|(key, part)| whole.get(key).is_some_and(|whole| contains(whole, part)))
        }
        (whole, part) => whole == part,
    }
}

#[tokio::test]
async fn jobs_of_the_old_version_run_and_are_read_in_both() {
    let world = World::start(&MemoryStore::new(), true);
    world.node("edge-1", true, true).await;
    world.connect("edge-1", Behaviour::Succeeds);
    let selector = json!({"matchLabels": {"node-role.kubernetes.io/edge": "", "site": "a"}});
    let upgrade = json!({"version": "v1.23.0", "checkItems": ["cpu", "mem", "disk"], "failureTolerate": "0.3",
        "concurrency": 2, "timeoutSeconds": 180, "labelSelector": selector});
    let pull = json!({"imagePrePullTemplate": {"images": ["a/b:1"], "nodeNames": ["edge-1"], "timeoutSeconds": 300, "retryTimes": 1}});
    for (kind, spec) in [(UPGRADE, upgrade), ("ImagePrePullJob", pull)] {
        let job =
            json!({"metadata": {"name": "old", "labels": {"description": "text"}}, "spec": spec});
        let job: DynamicObject = serde_json::from_value(job).unwrap();
        let api = old(&world, kind);
        api.create(&PostParams::default(), &job).await.unwrap();
        world.wait(kind, "old", "Completed: Successful").await;
        for api in [&api, &world.api(kind)] {
            let read = api.get("old").await.unwrap();
            let with_defaults = &read.data["spec"];
            assert!(contains(with_defaults, &spec), "{with_defaults}");
            assert_eq!(read.labels()["description"], "text");
            assert_eq!(read.data["status"]["phase"], "Completed");
        }
        // an API server with KubeEdge's definitions removes the phase when it writes the old version
        let change = json!({"status": {"phase": null, "nodeStatus": null, "conditions": null}});
        let (params, patch) = (PatchParams::default(), Patch::Merge(&change));
        api.patch_status("old", &params, &patch).await.unwrap();
        world.wait(kind, "old", "Completed: Successful").await;
    }
}

/// A kind, a specification, the path of the field that is refused, and a part of the reason.
type Refused = (&'static str, Value, &'static str, &'static str);

fn refused_specs() -> Vec<Refused> {
    let exactly = "exactly one of nodeNames and labelSelector is required";
    let version = "must be v and three numbers";
    let image = "must be the name of an image with at least one slash";
    let fraction = "must be a number from 0 to 1";
    let one = |more: Value| {
        let mut spec = json!({"version": "v1.23.0", "nodeNames": ["edge-1"]});
        let fields = more.as_object().unwrap().clone();
        spec.as_object_mut().unwrap().extend(fields);
        spec
    };
    let pull = |template: Value| json!({"imagePrePullTemplate": template});
    let upgrades = [
        (json!({"version": "v1.23.0"}), "", exactly),
        (one(json!({"labelSelector": {}})), "", exactly),
        (one(json!({"version": "v1.23.0;id"})), ".version", version),
        (one(json!({"version": "1.23"})), ".version", version),
        (one(json!({"image": "a b/c"})), ".image", image),
        (one(json!({"image": "x/y;z"})), ".image", image),
        (
            one(json!({"failureTolerate": "abc"})),
            ".failureTolerate",
            fraction,
        ),
        (
            one(json!({"failureTolerate": "1.1"})),
            ".failureTolerate",
            fraction,
        ),
        (
            one(json!({"checkItems": ["gpu"]})),
            ".checkItems",
            "must be cpu, mem or disk",
        ),
        (
            one(json!({"concurrency": -1})),
            ".concurrency",
            "must be 0 or greater",
        ),
        (
            one(json!({"timeoutSeconds": -1})),
            ".timeoutSeconds",
            "must be 0 or greater",
        ),
    ];
    let upgrades = upgrades.map(|(spec, field, why)| (UPGRADE, spec, field, why));
    let others = [
        (
            "ImagePrePullJob",
            pull(json!({"images": ["a/b:1"]})),
            ".imagePrePullTemplate",
            exactly,
        ),
        (
            "ImagePrePullJob",
            pull(json!({"images": [], "nodeNames": ["edge-1"]})),
            ".imagePrePullTemplate.images",
            "must have 1 to 256 images",
        ),
        (
            "ConfigUpdateJob",
            json!({"updateFields": {"a": "1"}}),
            "",
            exactly,
        ),
        (
            "ConfigUpdateJob",
            json!({"nodeNames": ["edge-1"], "updateFields": {}}),
            ".updateFields",
            "must have at least one key",
        ),
    ];
    upgrades.into_iter().chain(others).collect()
}

#[tokio::test]
async fn invalid_jobs_are_refused_by_the_api_in_both_versions() {
    let api = TestApi::new(&MemoryStore::new());
    for version in ["v1alpha2", "v1alpha1"] {
        let group_version = format!("operations.kubeedge.io/{version}");
        let create = async |kind: &str, name: &str, spec: &Value| {
            let job = json!({"metadata": {"name": name}, "spec": spec});
            let job: DynamicObject = serde_json::from_value(job).unwrap();
            let jobs = api.objects(&group_version, kind, "");
            match jobs.create(&PostParams::default(), &job).await {
                Err(kube::Error::Api(status)) => (status.code, status.message),
                other => panic!("{kind} {spec}: {other:?}"),
            }
        };
        for (kind, spec, field, why) in refused_specs() {
            if (version, kind) == ("v1alpha1", "ConfigUpdateJob") {
                continue;
            }
            let (code, message) = create(kind, "job", &spec).await;
            let field = format!("spec{field}: ");
            assert_eq!(code, 422, "{message}");
            assert!(
                message.contains(&field) && message.contains(why),
                "{message}"
            );
        }
        let spec = json!({"version": "v1.23.0", "nodeNames": ["edge-1"]});
        let (code, message) = create(UPGRADE, "node", &spec).await;
        assert_eq!(code, 422);
        assert!(message.contains("cannot be named \"node\""), "{message}");
    }
}

#[tokio::test]
async fn samples_of_jobs_groups_and_applications_are_accepted() {
    let api = TestApi::new(&MemoryStore::new());
    let namespace = json!({"metadata": {"name": "default"}});
    api.create("v1", "Namespace", "", namespace).await;
    let samples = include_str!("../../../../../crds/src/tests/samples.yaml");
    let mut kinds = Vec::new();
    for sample in samples.split("---\n").skip(1) {
        let object: Value = serde_saphyr::from_str(sample).unwrap();
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        let (group_version, kind) = (text("apiVersion"), text("kind"));
        let namespace = match kind.as_str() {
            "EdgeApplication" => "default",
            "NodeGroup" | "NodeUpgradeJob" | "ImagePrePullJob" | "ConfigUpdateJob" => "",
            _ => continue,
        };
        api.create(&group_version, &kind, namespace, object.clone())
            .await;
        kinds.push(kind);
    }
    assert_eq!(kinds.len(), 5, "{kinds:?}");
}
