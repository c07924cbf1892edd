//! Deletes ObjectSyncs and ClusterObjectSyncs of Nodes that no longer exist, as CloudCore does at its start.

use std::{collections::BTreeSet, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, ResourceExt, api::ListParams, core::PartialObjectMeta};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::sessions::of_all_replicas;
use crate::{
    controllers::sync::{Record, SyncRecords},
    delivery::ObjectRef,
};

/// The pause between two searches.
const SEARCH_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// The pause after a search that failed, or for which too little is known.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// The records that are deleted at the same time.
const CONCURRENT_DELETIONS: usize = 8;

/// Runs until `stop`.
pub(super) async fn run(client: Client, stop: CancellationToken) {
    let search = async {
        loop {
            let pause = match delete_leftovers(&client).await {
                Ok(true) => SEARCH_INTERVAL,
                Ok(false) => RETRY_INTERVAL,
                Err(error) => {
                    let error: &dyn std::error::Error = error.as_ref();
                    warn!(
                        error,
                        "failed to delete ObjectSyncs of deleted Nodes; retrying"
                    );
                    RETRY_INTERVAL
                }
            };
            sleep(pause).await;
        }
    };
    // cancel-safe: what is not deleted now is found again
    stop.run_until_cancelled(search).await;
}

/// Deletes the records of nodes that are neither registered nor connected. Returns false if it is not known yet which nodes are connected.
async fn delete_leftovers(client: &Client) -> Result<bool, kubeapi::BoxError> {
    // first: a node that connects meanwhile is among those that are read then
    let records = SyncRecords::new(client.clone());
    let all = records.load_all().await?;
    let sessions = of_all_replicas(client).await?;
    if !sessions.is_complete {
        return Ok(false);
    }
    let nodes = Api::<PartialObjectMeta<Node>>::all(client.clone());
    let nodes = nodes.list_metadata(&ListParams::default()).await?;
    let mut known: BTreeSet<String> = nodes.items.iter().map(ResourceExt::name_any).collect();
    known.extend(sessions.sessions.into_iter().map(|session| session.node));
    for (node, held) in all.iter().filter(|(node, _)| !known.contains(*node)) {
        let delete = async |(uid, (path, _)): (&String, &(_, _))| {
            let (path, uid) = (Clone::clone(path), uid.clone());
            let dropped = Record::Dropped(ObjectRef { path, uid });
            records.write(node, &dropped).await
        };
        let mut deleting =
            futures::stream::iter(held.iter().map(delete)).buffer_unordered(CONCURRENT_DELETIONS);
        while let Some(deleted) = deleting.next().await {
            deleted?;
        }
        info!(
            node,
            records = held.len(),
            "ObjectSyncs of a deleted Node deleted"
        );
    }
    Ok(true)
}
