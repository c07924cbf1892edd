//! Groups and nodes of an API in memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use kube::{
    Client,
    api::{DeleteParams, DynamicObject},
    client::Body,
};
use objectstore::MemoryStore;
use serde_json::Value;
use testkit::{eventually, until};
use tower::service_fn;

use super::*;
use crate::controllers::test_api::{self, TestApi};

struct World(TestApi);

impl World {
    async fn start() -> Self {
        Self(TestApi::with("default", run).await)
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        match kind {
            "NodeGroup" => self.0.objects("apps.kubeedge.io/v1alpha1", kind, ""),
            "Pod" => self.0.objects("v1", kind, "default"),
            _ => self.0.objects("v1", kind, ""),
        }
    }

    async fn node(&self, name: &str, labels: Value) {
        let node = json!({"metadata": {"name": name, "labels": labels}});
        self.0.create("v1", "Node", "", node).await;
    }

    async fn group(&self, name: &str, spec: Value) {
        let group = json!({"metadata": {"name": name}, "spec": spec});
        self.0
            .create("apps.kubeedge.io/v1alpha1", "NodeGroup", "", group)
            .await;
    }

    async fn patch(&self, kind: &str, name: &str, patch: Value) {
        test_api::patch(&self.api(kind), name, patch).await;
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
    // has left while no controller ran
    world.node("n3", json!({"site": "c"})).await;
    world
        .group("a", json!({"matchLabels": {"site": "a"}}))
        .await;
    world.wait(&[("n1", "a:"), ("n2", "a:")]).await;
    for (name, node, selector) in [
        ("left", "n3", json!({GROUP_LABEL: "a"})),
        ("mine", "n1", json!({GROUP_LABEL: "a"})),
        ("other", "n1", json!({GROUP_LABEL: "b"})),
        ("plain", "n1", json!({})),
        ("stays", "n2", json!({GROUP_LABEL: "a"})),
    ] {
        let spec = json!({"nodeName": node, "nodeSelector": selector, "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "i"}]});
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        world.0.create("v1", "Pod", "default", pod).await;
    }
    world
        .patch("Node", "n1", json!({"metadata": {"labels": {"site": "b"}}}))
        .await;
    world.wait(&[("n1", "-:")]).await;
    for name in ["mine", "left"] {
        eventually("the pod of the group is gone", async || {
            match world.api("Pod").get_opt(name).await.unwrap() {
                None => Ok(()),
                Some(pod) => Err(pod.metadata),
            }
        })
        .await;
    }
    for name in ["other", "plain", "stays"] {
        let pod = world.api("Pod").get(name).await.unwrap();
        assert!(pod.metadata.deletion_timestamp.is_none(), "{name}");
    }
}

#[tokio::test]
async fn nobody_is_evicted_while_nodes_cannot_be_listed() {
    let world = World(TestApi::new(&MemoryStore::new()));
    let namespace = json!({"metadata": {"name": "default"}});
    world.0.create("v1", "Namespace", "", namespace).await;
    let labels = json!({"site": "a", GROUP_LABEL: "a"});
    world.node("n1", labels).await;
    let match_labels = json!({"matchLabels": {"site": "a"}});
    world.group("a", match_labels).await;
    let spec = json!({"nodeName": "n1", "nodeSelector": {GROUP_LABEL: "a"}, "containers": [{"name": "c", "image": "i"}]});
    let pod = json!({"metadata": {"name": "member"}, "spec": spec});
    world.0.create("v1", "Pod", "default", pod).await;
    // the first lists of nodes fail
    let (whole, lists) = (world.0.client.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&lists);
    let service = service_fn(move |request: http::Request<Body>| {
        let is_list = request.uri().path() == "/api/v1/nodes";
        let fails = is_list && counted.fetch_add(1, Ordering::Relaxed) < 2;
        let whole = whole.clone();
        async move {
            if !fails {
                return whole.send(request).await;
            }
            let status = json!({"kind": "Status", "status": "Failure", "code": 500, "message": "broken", "reason": "InternalError"});
            let body = Body::from(status.to_string().into_bytes());
            let answer = http::Response::builder().status(500).body(body);
            answer.map_err(kube::Error::HttpError)
        }
    });
    let faulty = TestApi::of_client(Client::new(service, "default"));
    faulty.reflectors.start("controller", run);
    until("a second list", || lists.load(Ordering::Relaxed) > 1).await;
    world.wait(&[("n1", "a:")]).await;
    world.wait_status("a", "n1 Succeeded").await;
    world.wait(&[("n1", "a:")]).await;
    let pod = world.api("Pod").get("member").await.unwrap();
    assert!(pod.metadata.deletion_timestamp.is_none());
}

#[test]
fn a_group_whose_name_is_no_label_has_no_nodes() {
    for (name, why) in [
        ("berlin", None),
        ("a.b-c", None),
        ("x".repeat(64).as_str(), Some("must be no more than 63")),
    ] {
        let node: Node = serde_json::from_value(json!({"metadata": {"name": "n1"}})).unwrap();
        let spec = crds::apps::NodeGroupSpec {
            nodes: vec!["n1".to_owned()],
            ..Default::default()
        };
        let Plan { labels, status } = plan(name, &spec, &[Arc::new(node)], false);
        let reason = status.node_statuses[0].selection_status_reason.as_deref();
        assert_eq!(
            (labels.is_empty(), reason.is_some()),
            (why.is_some(), why.is_some())
        );
        assert!(
            reason.unwrap_or_default().contains(why.unwrap_or_default()),
            "{reason:?}"
        );
        assert_eq!(check_name(name).is_err(), why.is_some());
    }
}
