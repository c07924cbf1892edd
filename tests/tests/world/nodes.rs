//! Nodes come, are heard of, and are missed.

use std::{fs, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, api::WatchParams, core::WatchEvent};
use serde_json::{Value, json};
use tests::{Object, Setup, World, condition, eventually, manifests::pod, runs, within};
use wire::enroll::Csr;

use crate::raw::Caller;

#[tokio::test]
async fn a_node_registers_itself_and_is_ready() {
    let world = World::new(2).await;
    world.until_ready().await;
    let node = world.node("edge-1").get().await;
    assert_eq!(
        node["metadata"]["labels"]["node-role.kubernetes.io/edge"],
        ""
    );
    assert_eq!(
        node["metadata"]["labels"]["kubernetes.io/hostname"],
        "edge-1"
    );
    assert!(
        node["status"]["nodeInfo"]["kubeletVersion"]
            .as_str()
            .unwrap()
            .contains("kubeedge")
    );
    assert_eq!(node["status"]["addresses"][0]["address"], "127.0.0.1");
    assert!(node["status"]["allocatable"]["pods"].is_string());
}

#[tokio::test]
async fn a_node_whose_agent_is_gone_becomes_not_ready_and_comes_back_with_it() {
    let (lease, lease_grace) = (Duration::from_secs(1), Duration::from_secs(2));
    let mut world = World::with(Setup {
        lease,
        lease_grace,
        ..Setup::default()
    })
    .await;
    world.until_ready().await;
    // both leave at once, if not for the label
    let leaves_at_once = json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
        "tolerationSeconds": 0}]);
    for (name, label) in [("stays", "autonomy"), ("leaves", "else")] {
        let mut manifest = pod(name, Some("edge-1"));
        manifest["metadata"]["labels"] = json!({"app-offline.kubeedge.io": label});
        manifest["spec"]["tolerations"] = leaves_at_once.clone();
        world.apply(&manifest).await.until("it runs", runs).await;
    }
    world.nodes[0].stop().await;
    let node = world.node("edge-1");
    let missed = node
        .until("NotReady", |node| {
            condition(node, "Ready") == Some("Unknown") && !node["spec"]["taints"][0].is_null()
        })
        .await;
    assert_eq!(
        missed["spec"]["taints"][0]["key"],
        "node.kubernetes.io/unreachable"
    );
    let is_deleted = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
    world.pod("leaves").until("it leaves", is_deleted).await;
    assert!(!is_deleted(&world.pod("stays").get().await));
    world.nodes[0].start().await.unwrap();
    node.until("Ready and without a taint", |node| {
        condition(node, "Ready") == Some("True")
            && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty)
    })
    .await;
}

/// The machine joins anew, as with `edge-agent reset` and `join`.
async fn join_anew(world: &mut World, setup: &Setup) {
    let mut node = world.nodes.remove(0);
    node.stop().await;
    let directory = node.directory().to_owned();
    drop(node);
    fs::remove_dir_all(&directory).unwrap();
    let mut node = world.prepare("edge-1", setup).await;
    node.start().await.unwrap();
    world.nodes.push(node);
}

#[tokio::test]
async fn a_node_that_was_deleted_in_the_cloud_joins_anew() {
    let setup = Setup {
        durable: true,
        ..Setup::default()
    };
    let mut world = World::with(setup.clone()).await;
    world.until_ready().await;
    let old = world.node("edge-1").get().await["metadata"]["uid"].clone();
    world.nodes[0].stop().await;
    let thief = Caller::thief(&world, world.nodes[0].directory()).await;
    world.node("edge-1").delete(None).await;
    eventually("its certificate is refused", async || {
        match thief.refusal(&world, "edge-1").await {
            Some(403) => Ok(()),
            other => Err(other),
        }
    })
    .await;
    let (status, said) = thief
        .enrol(&world, "", "edge-1", &Csr::for_node("edge-1").unwrap())
        .await;
    assert_eq!(
        status,
        401,
        "nor is it renewed: {}",
        String::from_utf8_lossy(&said)
    );
    // the cloud remembers
    world.stop_cloud().await;
    world.start_cloud().await;
    assert_eq!(thief.refusal(&world, "edge-1").await, Some(403));
    join_anew(&mut world, &setup).await;
    let ready = |node: &serde_json::Value| {
        node["metadata"]["uid"] != old && condition(node, "Ready") == Some("True")
    };
    world.node("edge-1").until("registered anew", ready).await;
    assert_eq!(
        thief.refusal(&world, "edge-1").await,
        Some(403),
        "the older one stays refused"
    );
}

#[tokio::test]
async fn a_node_that_is_deleted_while_it_is_connected_is_thrown_out_until_it_joins_anew() {
    let mut world = World::new(1).await;
    world.until_ready().await;
    let old = world.node("edge-1").get().await["metadata"]["uid"].clone();
    world.node("edge-1").delete(None).await;
    world.until_connected(0, false).await;
    assert!(
        world.node("edge-1").find().await.is_none(),
        "it does not register itself again"
    );
    join_anew(&mut world, &Setup::default()).await;
    let ready = |node: &serde_json::Value| {
        node["metadata"]["uid"] != old && condition(node, "Ready") == Some("True")
    };
    world.node("edge-1").until("registered anew", ready).await;
}

/// Whose a lease is: the UIDs of its owners.
fn owners(lease: &serde_json::Value) -> Vec<&str> {
    let owners = lease["metadata"]["ownerReferences"].as_array();
    owners
        .into_iter()
        .flatten()
        .filter_map(|owner| owner["uid"].as_str())
        .collect()
}

#[tokio::test]
async fn a_lease_belongs_to_the_node_of_now_and_is_collected_with_each_once() {
    let setup = Setup {
        lease: Duration::from_secs(4),
        ..Setup::default()
    };
    let mut world = World::with(setup.clone()).await;
    let leases = Api::<Lease>::namespaced(world.client(), "kube-node-lease");
    let mut watch = leases
        .watch(&WatchParams::default(), "0")
        .await
        .unwrap()
        .boxed();
    world.until_ready().await;
    let (node, lease) = (
        world.node("edge-1"),
        Object::new(
            &world.client(),
            "coordination.k8s.io/v1",
            "Lease",
            Some("kube-node-lease"),
            "edge-1",
        ),
    );
    let mut nodes = vec![tests::uid(&node.get().await).to_owned()];
    lease
        .until("the node's", |lease| owners(lease) == [nodes[0].as_str()])
        .await;
    for _ in 0..2 {
        let old = nodes.last().unwrap().clone();
        node.delete(None).await;
        world.until_connected(0, false).await;
        join_anew(&mut world, &setup).await;
        let found = node
            .until("registered anew", |node| tests::uid(node) != old)
            .await;
        nodes.push(tests::uid(&found).to_owned());
        let owned = |lease: &serde_json::Value| owners(lease) == [nodes.last().unwrap().as_str()];
        let found = lease.until("the new node's", owned).await;
        // it stays, and is renewed
        let renewed = |lease: &serde_json::Value| {
            tests::uid(lease) == tests::uid(&found)
                && lease["spec"]["renewTime"] != found["spec"]["renewTime"]
        };
        lease.until("renewed", renewed).await;
    }
    let last = lease.get().await;
    let mut deleted = 0;
    loop {
        let event = within("the leases so far", watch.next())
            .await
            .expect("more")
            .unwrap();
        let (WatchEvent::Added(seen) | WatchEvent::Modified(seen) | WatchEvent::Deleted(seen)) =
            &event
        else {
            continue;
        };
        let owner = seen
            .metadata
            .owner_references
            .iter()
            .flatten()
            .map(|owner| owner.uid.clone());
        let owner: Vec<_> = owner.collect();
        assert!(
            owner.len() == 1 && nodes.contains(&owner[0]),
            "{owner:?} of {nodes:?}"
        );
        deleted += usize::from(matches!(event, WatchEvent::Deleted(_)));
        if seen.metadata.resource_version.as_deref() == last["metadata"]["resourceVersion"].as_str()
        {
            break;
        }
    }
    assert_eq!(deleted, nodes.len() - 1, "once with each node");
}
