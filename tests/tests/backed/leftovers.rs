//! ObjectSyncs of Nodes that no longer exist.

use serde_json::json;
use tests::{World, manifests::pod};

const SYNCS: &str = "reliablesyncs.kubeedge.io/v1alpha1";

#[tokio::test]
async fn records_of_deleted_nodes_are_removed_and_no_others() {
    let world = World::new(1).await;
    let leftover = |kind: &str, name: &str, of: &str| {
        let mut sync = json!({"apiVersion": SYNCS, "kind": kind, "metadata": {"name": name},
            "spec": {"objectAPIVersion": "v1", "objectKind": of, "objectName": "settings"}});
        if kind == "ObjectSync" {
            sync["metadata"]["namespace"] = "default".into();
        }
        sync
    };
    let gone = world
        .apply(&leftover("ObjectSync", "gone.example.a-b-c", "ConfigMap"))
        .await;
    let node = world
        .apply(&leftover("ClusterObjectSync", "gone.example.d-e-f", "Node"))
        .await;
    world.until_ready().await;
    world.run(&pod("web", Some("edge-1"))).await;
    gone.until_gone().await;
    node.until_gone().await;
    assert!(!world.object_syncs("edge-1").await.is_empty());
}
