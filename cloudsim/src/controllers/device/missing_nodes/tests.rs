//! Devices and nodes in an API in memory, and the events about them.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event as CoreEvent;
use kube::{
    Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use objectstore::MemoryStore;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::controllers::{test_api::TestApi, workloads::Listed};

/// Long enough for the slowest machine; a test that works never waits for it.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

async fn bind(client: &Client, change: Value) {
    let api = Api::<Device>::namespaced(client.clone(), "ns");
    api.patch("t1", &PatchParams::default(), &Patch::Merge(change))
        .await
        .unwrap();
}

fn to_node(name: &str) -> Value {
    json!({"spec": {"nodeName": name}})
}

/// Waits until there are events that name these nodes, in any order, with these counts.
async fn until_told(client: &Client, expected: &[(&str, i32)]) {
    let api = Api::<CoreEvent>::namespaced(client.clone(), "ns");
    let told = async || {
        let events = api.list(&ListParams::default()).await.unwrap().items;
        let told = events.into_iter().map(|event| {
            let about = event.involved_object;
            assert_eq!(
                (event.reason.as_deref(), event.type_.as_deref()),
                (Some("NodeMissing"), Some("Warning"))
            );
            assert_eq!(
                (about.kind.as_deref(), about.name.as_deref()),
                (Some("Device"), Some("t1"))
            );
            let message = event.message.unwrap_or_default();
            let node = message
                .strip_prefix("is bound to Node ")
                .and_then(|rest| rest.split_once(", which"));
            (node.unwrap().0.to_owned(), event.count.unwrap_or_default())
        });
        let mut told: Vec<_> = told.collect();
        told.sort();
        told
    };
    let mut changes = pin!(watcher::watcher(api.clone(), watcher::Config::default()));
    let expected: Vec<_> = expected
        .iter()
        .map(|(node, count)| ((*node).to_owned(), *count))
        .collect();
    let seen = timeout(WAIT_TIMEOUT, async {
        while told().await != expected {
            changes.next().await.unwrap().unwrap();
        }
    });
    assert!(seen.await.is_ok(), "{:?}, not {expected:?}", told().await);
}

#[tokio::test]
async fn a_node_that_is_missing_is_told_once_and_again_when_it_changes() {
    let api = TestApi::new(&MemoryStore::new());
    let client = api.client.clone();
    let cluster = Cluster::wait_listed(&api.reflectors).await;
    tokio::spawn(run(cluster.clone(), api.stop.clone()));
    let namespace = serde_json::from_value(json!({"metadata": {"name": "ns"}})).unwrap();
    let namespaces = Api::<k8s_openapi::api::core::v1::Namespace>::all(client.clone());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    let device: Device = serde_json::from_value(json!({
        "apiVersion": "devices.kubeedge.io/v1beta1", "kind": "Device", "metadata": {"name": "t1"},
        "spec": {"nodeName": "edge-9"},
    }))
    .unwrap();
    let devices = Api::<Device>::namespaced(client.clone(), "ns");
    devices
        .create(&PostParams::default(), &device)
        .await
        .unwrap();
    until_told(&client, &[("edge-9", 1)]).await;
    // another change of the same device, and one of its node
    bind(&client, json!({"metadata": {"labels": {"a": "b"}}})).await;
    bind(&client, to_node("edge-8")).await;
    until_told(&client, &[("edge-8", 1), ("edge-9", 1)]).await;
    let nodes = Api::<Node>::all(client.clone());
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "edge-1"}})).unwrap();
    let mut changes = cluster.nodes.listen();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    timeout(WAIT_TIMEOUT, changes.recv())
        .await
        .unwrap()
        .unwrap();
    bind(&client, to_node("edge-1")).await;
    nodes.delete("edge-1", &Default::default()).await.unwrap();
    until_told(&client, &[("edge-1", 1), ("edge-8", 1), ("edge-9", 1)]).await;
    bind(&client, to_node("")).await;
    bind(&client, to_node("edge-9")).await;
    until_told(&client, &[("edge-1", 1), ("edge-8", 1), ("edge-9", 2)]).await;
}
