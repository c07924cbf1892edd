//! Groups and nodes of an API in memory.

use kube::{
    Client,
    api::{DynamicObject, PostParams},
};
use kubeapi::Registry;
use objectstore::MemoryStore;
use testkit::eventually;

use super::*;
use crate::{
    controllers::{events::Recorder, workloads::Reflectors},
    tasks::Tasks,
};

struct World {
    client: Client,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl World {
    async fn start() -> Self {
        let api = apiserver::builder(MemoryStore::new())
            .registry(Registry::builtin().with_crds(&crds::all()))
            .build();
        let client = api.client("default");
        let (stop, tasks) = (CancellationToken::new(), Tasks::default());
        let shared = Shared::new(client.clone(), Recorder::spawn(&tasks, &client, &stop));
        let reflectors = Reflectors::new(shared);
        reflectors.start("nodegroup", &tasks, &stop, run);
        reflectors.spawn(&tasks, &stop);
        let world = Self { client, stop };
        world
            .create("Namespace", json!({"metadata": {"name": "default"}}))
            .await;
        world
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (group, version) = match kind {
            "NodeGroup" => ("apps.kubeedge.io", "v1alpha1"),
            _ => ("", "v1"),
        };
        let kinds = kube::api::GroupVersionKind::gvk(group, version, kind);
        let resource = kube::api::ApiResource::from_gvk(&kinds);
        match kind {
            "Pod" => Api::namespaced_with(self.client.clone(), "default", &resource),
            _ => Api::all_with(self.client.clone(), &resource),
        }
    }

    async fn create(&self, kind: &str, object: Value) {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.api(kind)
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    async fn node(&self, name: &str, labels: Value) {
        self.create(
            "Node",
            json!({"metadata": {"name": name, "labels": labels}}),
        )
        .await;
    }

    async fn group(&self, name: &str, spec: Value) {
        self.create(
            "NodeGroup",
            json!({"metadata": {"name": name}, "spec": spec}),
        )
        .await;
    }

    async fn patch(&self, kind: &str, name: &str, patch: Value) {
        let api = self.api(kind);
        api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    /// Waits for the group and zone of each node: `a:zone`, `a:`, `-:`.
    async fn wait(&self, wanted: &[(&str, &str)]) {
        for (name, labels) in wanted {
            eventually(name, async || {
                let node = self.api("Node").get(name).await.unwrap();
                let label = |key: &str| node.labels().get(key).cloned();
                let found = format!(
                    "{}:{}",
                    label(GROUP_LABEL).unwrap_or("-".into()),
                    label(ZONE_LABEL).unwrap_or_default()
                );
                if found == *labels { Ok(()) } else { Err(found) }
            })
            .await;
        }
    }

    /// Waits for the selection of each node of a group: `n1 Succeeded`.
    async fn wait_status(&self, group: &str, wanted: &str) -> Value {
        eventually(wanted, async || {
            let group = self.api("NodeGroup").get(group).await.unwrap();
            let nodes = group.data["status"]["nodeStatuses"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let each: Vec<String> = nodes
                .iter()
                .map(|node| {
                    format!(
                        "{} {}",
                        node["nodeName"].as_str().unwrap(),
                        node["selectionStatus"].as_str().unwrap()
                    )
                })
                .collect();
            let found = each.join(", ");
            if found == wanted {
                Ok(json!(nodes))
            } else {
                Err(found)
            }
        })
        .await
    }
}

#[tokio::test]
async fn nodes_are_labelled_by_the_first_group_that_selects_them() {
    let world = World::start().await;
    world.node("n1", json!({"site": "a"})).await;
    world.node("n2", json!({})).await;
    world
        .node("n3", json!({"topology.kubernetes.io/zone": "of-others"}))
        .await;
    world.group("a", json!({"nodes": ["n2", "nobody"], "matchLabels": {"site": "a"}, "topologyEnabled": true})).await;
    world
        .wait(&[("n1", "a:a"), ("n2", "a:a"), ("n3", "-:of-others")])
        .await;
    let nodes = world
        .wait_status("a", "n1 Succeeded, n2 Succeeded, nobody Failed")
        .await;
    assert_eq!(nodes[2]["selectionStatusReason"], "node does not exist");
    assert_eq!(nodes[0]["readyStatus"], "Unknown");

    // a second group gets only what is free; without labels it matches nothing
    world.group("b", json!({"nodes": ["n2", "n3"]})).await;
    world.wait(&[("n2", "a:a"), ("n3", "b:of-others")]).await;
    let nodes = world.wait_status("b", "n2 Failed, n3 Succeeded").await;
    assert_eq!(
        nodes[0]["selectionStatusReason"],
        "node n2 has already belonged to NodeGroup a"
    );

    // a node that is made later, or gets the label, joins; what leaves becomes free for the other
    world.node("n4", json!({"site": "a"})).await;
    world.wait(&[("n4", "a:a")]).await;
    world
        .patch("NodeGroup", "a", json!({"spec": {"nodes": null}}))
        .await;
    world.wait(&[("n2", "b:"), ("n1", "a:a")]).await;
    world
        .patch(
            "NodeGroup",
            "a",
            json!({"spec": {"topologyEnabled": false}}),
        )
        .await;
    world.wait(&[("n1", "a:"), ("n4", "a:")]).await;
    // a zone of others stays
    world
        .api("NodeGroup")
        .delete("b", &DeleteParams::default())
        .await
        .unwrap();
    world.wait(&[("n2", "-:"), ("n3", "-:of-others")]).await;
    eventually("the group is gone", async || {
        match world.api("NodeGroup").get_opt("b").await.unwrap() {
            None => Ok(()),
            Some(group) => Err(group.metadata.finalizers),
        }
    })
    .await;
}

#[tokio::test]
async fn a_node_that_leaves_loses_the_pods_of_the_group_alone() {
    let world = World::start().await;
    world.node("n1", json!({"site": "a"})).await;
    world.node("n2", json!({"site": "a"})).await;
    world
        .group("a", json!({"matchLabels": {"site": "a"}}))
        .await;
    world.wait(&[("n1", "a:"), ("n2", "a:")]).await;
    for (name, node, selector) in [
        ("mine", "n1", json!({GROUP_LABEL: "a"})),
        ("other", "n1", json!({GROUP_LABEL: "b"})),
        ("plain", "n1", json!({})),
        ("stays", "n2", json!({GROUP_LABEL: "a"})),
    ] {
        let spec = json!({"nodeName": node, "nodeSelector": selector, "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "i"}]});
        world
            .create("Pod", json!({"metadata": {"name": name}, "spec": spec}))
            .await;
    }
    world
        .patch("Node", "n1", json!({"metadata": {"labels": {"site": "b"}}}))
        .await;
    world.wait(&[("n1", "-:")]).await;
    eventually("the pod of the group is gone", async || {
        match world.api("Pod").get_opt("mine").await.unwrap() {
            None => Ok(()),
            Some(pod) => Err(pod.metadata.deletion_timestamp),
        }
    })
    .await;
    for name in ["other", "plain", "stays"] {
        let pod = world.api("Pod").get(name).await.unwrap();
        assert!(pod.metadata.deletion_timestamp.is_none(), "{name}");
    }
}
