//! Applications of an API in memory, and the objects that they create.

use testkit::eventually;

use super::*;
use crate::controllers::{
    edge::topology::{RANGE_NODE_GROUP, TOPOLOGY},
    node_groups::GROUP_LABEL,
    test_api::{self, TestApi},
};

struct World(TestApi);

impl World {
    async fn start() -> Self {
        Self(TestApi::with("default", run).await)
    }

    fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        self.0.objects(api_version, kind, "default")
    }

    async fn create(&self, api_version: &str, kind: &str, object: Value) {
        self.0.create(api_version, kind, "default", object).await;
    }

    fn applications(&self) -> Api<DynamicObject> {
        self.api("apps.kubeedge.io/v1alpha1", "EdgeApplication")
    }

    fn deployments(&self) -> Api<DynamicObject> {
        self.api("apps/v1", "Deployment")
    }

    async fn set(&self, manifests: Value, scope: Value) {
        let patch =
            json!({"spec": {"workloadTemplate": {"manifests": manifests}, "workloadScope": scope}});
        test_api::patch(&self.applications(), "app", patch).await;
    }

    /// Waits for the status: `0 Deployment/web-a Available, 1 -/- Processing`.
    async fn wait(&self, wanted: &str) {
        eventually(wanted, async || {
            let application = self.applications().get("app").await.unwrap();
            let all = application.data["status"]["workloadStatus"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let each: Vec<String> = all
                .iter()
                .map(|one| {
                    let identifier = &one["identifier"];
                    let text = |field: &str| identifier[field].as_str().unwrap_or("-").to_owned();
                    let condition = one["conditions"].as_str().unwrap_or_default();
                    format!(
                        "{} {}/{} {condition}",
                        identifier["ordinal"],
                        text("kind"),
                        text("name")
                    )
                })
                .collect();
            let found = each.join(", ");
            if found == wanted { Ok(()) } else { Err(found) }
        })
        .await;
    }

    /// Waits until the Deployments have these names.
    async fn wait_names(&self, wanted: &[&str]) {
        eventually("the Deployments", async || {
            let all = self.deployments().list(&Default::default()).await.unwrap();
            let names: Vec<String> = all.items.iter().map(ResourceExt::name_any).collect();
            if names == wanted { Ok(()) } else { Err(names) }
        })
        .await;
    }
}

fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "c", "image": "nginx:1"}]}}}})
}

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}}})
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

fn groups(names: &[&str]) -> Value {
    let groups: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    json!({"targetNodeGroups": groups})
}

async fn application(world: &World, manifests: Value, scope: Value) {
    let spec = json!({"workloadTemplate": {"manifests": manifests}, "workloadScope": scope});
    world
        .create(
            "apps.kubeedge.io/v1alpha1",
            "EdgeApplication",
            json!({"metadata": {"name": "app"}, "spec": spec}),
        )
        .await;
}

#[tokio::test]
async fn deployments_are_copied_for_each_group_and_other_objects_are_created_once() {
    let world = World::start().await;
    let scope = json!({"targetNodeGroups": [
        {"name": "a", "overriders": {"imageOverriders": [{"component": "Tag", "operator": "replace", "value": "2"}]}},
        {"name": "b"}],
        "targetNodeLabels": [{"labelSelector": {"matchLabels": {"region": "east"}}}]});
    application(
        &world,
        json!([deployment("web"), service("web"), map("web")]),
        scope,
    )
    .await;
    world
        .wait_names(&["web-a", "web-b", "web-ls-9e82600a"])
        .await;
    eventually("a hint at each missing group", async || {
        let events = world.api("v1", "Event").list(&Default::default()).await;
        let events = events.unwrap().items.into_iter();
        let hints = events.filter(|event| event.data["reason"] == "NodeGroupMissing");
        let found = hints.count();
        if found == 2 { Ok(()) } else { Err(found) }
    })
    .await;
    let first = world.deployments().get("web-a").await.unwrap();
    let spec = &first.data["spec"]["template"]["spec"];
    assert_eq!(
        spec["nodeSelector"],
        json!({"disk": "ssd", GROUP_LABEL: "a"})
    );
    assert_eq!(spec["containers"][0]["image"], "nginx:2");
    let owner = &first.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(
        (owner.kind.as_str(), owner.controller),
        ("EdgeApplication", Some(true))
    );
    let third = world.deployments().get("web-ls-9e82600a").await.unwrap();
    let affinity = "/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchExpressions/0";
    assert_eq!(
        third.data.pointer(affinity).unwrap(),
        &json!({"key": "region", "operator": "In", "values": ["east"]})
    );
    let found = world.api("v1", "Service").get("web").await.unwrap();
    assert_eq!(found.annotations()[TOPOLOGY], RANGE_NODE_GROUP);
    // nobody runs Deployments here: one reports itself
    for name in ["web-a", "web-b", "web-ls-9e82600a"] {
        let status = json!({"status": {"observedGeneration": 1, "readyReplicas": 0}});
        let api = world.deployments();
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
            .await
            .unwrap();
    }
    world
        .wait("0 Deployment/web-a Available, 0 Deployment/web-b Available, 0 Deployment/web-ls-9e82600a Available, 1 Service/web Available, 2 ConfigMap/web Available")
        .await;
}

#[tokio::test]
async fn what_is_not_wanted_any_more_is_deleted_and_nothing_else() {
    let world = World::start().await;
    application(
        &world,
        json!([deployment("web"), map("one"), map("two")]),
        groups(&["a", "b"]),
    )
    .await;
    world.wait_names(&["web-a", "web-b"]).await;
    let uid = async |name: &str| world.deployments().get(name).await.unwrap().uid();
    let before = uid("web-a").await;

    // manifests that move are the same objects
    world
        .set(
            json!([map("two"), map("new"), deployment("web")]),
            groups(&["b", "a"]),
        )
        .await;
    eventually("the removed one is gone", async || {
        let maps = world
            .api("v1", "ConfigMap")
            .list(&Default::default())
            .await
            .unwrap();
        let names: Vec<String> = maps.items.iter().map(ResourceExt::name_any).collect();
        if names == ["new", "two"] {
            Ok(())
        } else {
            Err(names)
        }
    })
    .await;
    assert_eq!(uid("web-a").await, before);

    // a copy whose overriders are invalid stays, and so does what a manifest was that is nothing now
    let broken = json!({"targetNodeGroups": [{"name": "a", "overriders": {"commandOverriders": [{"containerName": "x", "operator": "add", "value": ["y"]}]}}, {"name": "b"}]});
    world
        .set(json!([deployment("web"), {"kind": "ConfigMap"}]), broken)
        .await;
    world
        .wait("0 Deployment/web-a Processing, 0 Deployment/web-b Processing, 1 -/- Processing")
        .await;
    assert_eq!(uid("web-a").await, before);
    assert!(
        world
            .api("v1", "ConfigMap")
            .get_opt("new")
            .await
            .unwrap()
            .is_some()
    );

    // a target that goes takes its copy along; one that was deleted by hand, or changed, is made again
    world.set(json!([deployment("web")]), groups(&["b"])).await;
    world.wait_names(&["web-b"]).await;
    world
        .deployments()
        .delete("web-b", &DeleteParams::background())
        .await
        .unwrap();
    world.wait_names(&["web-b"]).await;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "other:1"}]}}}});
    let api = world.deployments();
    api.patch("web-b", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    eventually("the image is that of the manifest", async || {
        let image = world.deployments().get("web-b").await.unwrap().data["spec"]["template"]["spec"]["containers"][0]["image"].clone();
        if image == "nginx:1" { Ok(()) } else { Err(image) }
    })
    .await;
}

#[tokio::test]
async fn faults_are_in_the_status_and_stop_nothing_else() {
    let world = World::start().await;
    world
        .create(
            "v1",
            "ConfigMap",
            json!({"metadata": {"name": "taken"}, "data": {"a": "0"}}),
        )
        .await;
    let mut elsewhere = map("elsewhere");
    elsewhere["metadata"]["namespace"] = json!("kube-system");
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": []});
    let unknown = json!({"apiVersion": "x.example/v1", "kind": "Thing", "metadata": {"name": "t"}});
    let invalid =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Not_Valid"}});
    application(
        &world,
        json!([elsewhere, map("taken"), role, unknown, invalid, map("good")]),
        groups(&["a", "a"]),
    )
    .await;
    world
        .wait(
            "0 -/- Processing, 0 ConfigMap/elsewhere Processing, 1 ConfigMap/taken Processing, 2 ClusterRole/r Processing, \
             3 Thing/t Processing, 4 ConfigMap/Not_Valid Processing, 5 ConfigMap/good Available",
        )
        .await;
    let taken = world.api("v1", "ConfigMap").get("taken").await.unwrap();
    assert_eq!(taken.data["data"]["a"], "0");
}
