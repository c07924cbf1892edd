//! The sessions of nodes as all replicas have them, for `cloudsim nodes`: each replica writes its own down every few seconds.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::{
    hub::{NodeSession, Sessions},
    pki::{Change, Expected, Records, RecordsError},
};

/// What the records are called where they are kept.
const KIND: &str = "sessions";
/// How often they are written.
const WRITE: Duration = Duration::from_secs(10);
/// What is older is of a replica that has ended.
const FRESH: Duration = Duration::from_secs(60);
/// Sessions that one record holds; it has some 300 bytes for each, and a ConfigMap ends at a million.
const MAX_SESSIONS: usize = 2500;

#[derive(Deserialize, Serialize)]
struct Written {
    at: Timestamp,
    nodes: Vec<NodeSession>,
}

/// Writes them down until `stop`.
pub(super) async fn run(client: Client, replica: String, sessions: Sessions, stop: CancellationToken) {
    let records = Records::in_cluster(KIND, &client);
    let mut ticks = interval(WRITE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // cancel-safe: a tick that is not seen comes again
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let mut nodes = sessions.list();
        nodes.truncate(MAX_SESSIONS);
        let value = json!(Written { at: Timestamp::now(), nodes });
        let mut changes =
            vec![Change { name: replica.clone(), expected: Expected::Anything, value: Some(value) }];
        changes.extend(ended(&records).await.unwrap_or_default());
        if let Err(error) = records.write(changes).await {
            debug!(
                error = &error as &dyn std::error::Error,
                "the sessions of this replica are not written down"
            );
        }
    }
    let gone = Change { name: replica, expected: Expected::Anything, value: None };
    let _ = tokio::time::timeout(WRITE, records.write(vec![gone])).await;
}

/// The removal of those of replicas that have ended.
async fn ended(records: &Records) -> Result<Vec<Change>, RecordsError> {
    let is_old =
        |value: &serde_json::Value| Written::deserialize(value).map_or(true, |written| !is_fresh(&written));
    let old = records.list().await?.into_iter().filter(|entry| is_old(&entry.value));
    Ok(old.map(|entry| Change { name: entry.name, expected: entry.version, value: None }).collect())
}

fn is_fresh(written: &Written) -> bool {
    Timestamp::now().duration_since(written.at).unsigned_abs() < FRESH
}

/// Those of all replicas that run, by node; the newest where two have one of a node.
pub(crate) async fn of_all_replicas(client: &Client) -> Result<Vec<NodeSession>, RecordsError> {
    let mut all: Vec<NodeSession> = Vec::new();
    for entry in Records::in_cluster(KIND, client).list().await? {
        let Ok(written) = Written::deserialize(&entry.value) else { continue };
        if is_fresh(&written) {
            all.extend(written.nodes);
        }
    }
    all.sort_by(|one, other| (&one.node, other.since).cmp(&(&other.node, one.since)));
    all.dedup_by(|later, first| later.node == first.node);
    Ok(all)
}
