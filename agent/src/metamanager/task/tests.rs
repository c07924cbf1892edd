//! The cloud's messages for clients that watch, as CloudCore 1.23 sends them.

use objectstore::{Key, MemoryStore, Resource};
use serde_json::json;

use super::*;

const UID: &str = "5fbd3d30-9662-4cd3-a2a4-432ccb0d87db";

fn settings(source: &str, revision: u64, mode: &str) -> Message {
    let revision = revision.to_string();
    serde_json::from_value(json!({
        "header": {"msg_id": format!("m{revision}"), "timestamp": 0, "resourceversion": revision},
        "route": {"source": source, "group": "resource", "operation": "update", "resource": "default/configmap/settings"},
        "content": {
            "kind": "ConfigMap", "apiVersion": "v1", "data": {"mode": mode},
            "metadata": {"name": "settings", "namespace": "default", "uid": UID, "resourceVersion": revision},
        },
    }))
    .unwrap()
}

#[tokio::test]
async fn watched_objects_are_stored_for_the_node_too() {
    let desired = Desired::new(MemoryStore::new(), "edge-1".into());
    let ((forwarder, ..), unhandled) = (ModuleForwarder::new(), Unhandled::default());
    let stored = async |message| {
        let handlers = Handlers {
            watched: None,
            forwarder: &forwarder,
            unhandled: &unhandled,
        };
        let handled = handle(&desired, handlers, &Heartbeat::unmonitored(), message).await;
        handled.may_acknowledge && handled.answer.is_none()
    };
    let key = Key::new(Resource::new("", "configmaps"), "default", "settings");
    let mode = async || {
        desired
            .get(&key)
            .await
            .unwrap()
            .map(|object| object["data"]["mode"].clone())
    };

    // nothing on this node needs it yet
    assert!(stored(settings("dynamiccontroller", 456, "fast")).await);
    assert_eq!(mode().await, None);

    assert!(stored(settings("edgecontroller", 456, "fast")).await);
    // the cloud counts this as known once it is acknowledged, and sends it no other way
    assert!(stored(settings("dynamiccontroller", 573, "slow")).await);
    assert_eq!(mode().await, Some(json!("slow")));
}
