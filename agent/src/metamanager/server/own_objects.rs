//! Copies this node's own objects for the clients of this server as they change, with the cloud or without.

use std::time::Duration;

use componentbase::Heartbeat;
use objectstore::{Key, Resource, StoreError};
use tracing::warn;

use super::{super::desired::Desired, copies::Copies};

/// The wait after the store failed, or changed faster than the watch.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Copies from `own`; never returns.
pub(super) async fn run(own: &Desired, copies: &Copies, heartbeat: &Heartbeat) {
    // the kinds whose objects the cloud updates on every node
    tokio::join!(
        follow(own, copies, "nodes", heartbeat.for_loop("copies of nodes")),
        follow(own, copies, "pods", heartbeat.for_loop("copies of pods")),
        follow(
            own,
            copies,
            "configmaps",
            heartbeat.for_loop("copies of configmaps")
        ),
        follow(
            own,
            copies,
            "secrets",
            heartbeat.for_loop("copies of secrets")
        ),
    );
}

async fn follow(own: &Desired, copies: &Copies, plural: &str, heartbeat: Heartbeat) {
    let resource = Resource::new("", plural);
    loop {
        if let Err(error) = follow_once(own, copies, &resource, &heartbeat).await {
            warn!(
                error = &error as &dyn std::error::Error,
                %resource,
                "watch of this node's own objects interrupted; restarting"
            );
        }
        tokio::time::sleep(STORE_RETRY_DELAY).await;
    }
}

async fn follow_once(
    own: &Desired,
    copies: &Copies,
    resource: &Resource,
    heartbeat: &Heartbeat,
) -> Result<(), StoreError> {
    heartbeat.beat();
    let (objects, revision) = own.list(resource).await?;
    // objects that were deleted while nothing followed
    let mut keys: Vec<Key> = match resource.as_str() {
        "pods" | "nodes" => copies
            .all(resource)
            .await?
            .into_iter()
            .map(|copy| copy.key)
            .collect(),
        _ => Vec::new(),
    };
    keys.retain(|key| !objects.iter().any(|object| object.key == *key));
    for key in keys {
        heartbeat.beat();
        copies.forget_own(&key).await?;
    }
    for object in objects {
        heartbeat.beat();
        copies.follow(&object.key).await?;
    }
    let mut changes = own.watch(resource, revision)?;
    loop {
        let rest = heartbeat.idle();
        let event = changes.next().await;
        drop(rest);
        let event = event?;
        copies.follow(&event.object.key).await?;
    }
}
