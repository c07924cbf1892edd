//! The sessions of nodes at all replicas: each replica records its own every few seconds, for `cloudsim nodes` and for the other
//! replicas, so that a node has one session among all of them.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use kube::Client;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::debug;
use wire::instance::Instance;

use crate::{
    pki::{Change, Entry, Precondition, Records, RecordsError},
    sessions::{NodeSession, RemoteSession, Sessions},
};

/// The kind of the records.
const KIND: &str = "sessions";
/// How often they are written.
const WRITE_INTERVAL: Duration = Duration::from_secs(10);
/// Older records are of replicas that have ended.
const MAX_AGE: Duration = Duration::from_secs(60);
/// The most sessions in one record: each needs some 400 bytes, and a ConfigMap holds a million.
const MAX_SESSIONS: usize = 2300;

#[derive(Deserialize, Serialize)]
struct SessionsRecord {
    at: Timestamp,
    nodes: Vec<NodeSession>,
    /// The run of the agent that has each node's session.
    #[serde(default)]
    runs: HashMap<String, String>,
}

/// Writes the records until `stop`.
pub(super) async fn run(client: Client, replica: String, sessions: Sessions, stop: CancellationToken) {
    let records = Records::in_cluster(KIND, &client);
    let mut ticks = interval(WRITE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // cancel-safe: a tick that is not seen comes again
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let mut nodes = sessions.list();
        nodes.truncate(MAX_SESSIONS);
        let mut runs = sessions.runs();
        let runs = nodes.iter().filter_map(|session| runs.remove_entry(&session.node)).collect();
        let value = json!(SessionsRecord { at: Timestamp::now(), nodes, runs });
        let mut changes =
            vec![Change { name: replica.clone(), expected: Precondition::Anything, value: Some(value) }];
        let known = records.list().await;
        if let Ok(known) = &known {
            changes.extend(known.iter().filter(|entry| read(entry).is_none()).map(removal));
            sessions.set_remote(remote(known, &replica));
        }
        if let Err(error) = records.write(changes).await {
            debug!(
                error = &error as &dyn std::error::Error,
                "the sessions of this replica are not written down"
            );
        }
    }
    let gone = Change { name: replica, expected: Precondition::Anything, value: None };
    let _ = tokio::time::timeout(WRITE_INTERVAL, records.write(vec![gone])).await;
}

/// Reads the record of a running replica.
fn read(entry: &Entry) -> Option<SessionsRecord> {
    SessionsRecord::deserialize(&entry.value).ok().filter(is_fresh)
}

/// Returns the removal of a record whose replica has ended.
fn removal(entry: &Entry) -> Change {
    Change { name: entry.name.clone(), expected: entry.version.clone(), value: None }
}

/// Returns the sessions at all replicas but `own`.
fn remote(known: &[Entry], own: &str) -> Vec<RemoteSession> {
    let mut all = Vec::new();
    for entry in known.iter().filter(|entry| entry.name != own) {
        let Some(SessionsRecord { nodes, runs, .. }) = read(entry) else { continue };
        all.extend(nodes.into_iter().map(|session| RemoteSession {
            run: runs.get(&session.node).and_then(|run| Instance::parse(run)),
            node: session.node,
            since: session.since,
            replica: entry.name.clone(),
        }));
    }
    all
}

fn is_fresh(written: &SessionsRecord) -> bool {
    Timestamp::now().duration_since(written.at).unsigned_abs() < MAX_AGE
}

/// Returns the sessions of all running replicas by node; the newest if two have one of a node.
pub async fn of_all_replicas(client: &Client) -> Result<Vec<NodeSession>, RecordsError> {
    let mut all: Vec<NodeSession> = Vec::new();
    for entry in Records::in_cluster(KIND, client).list().await? {
        all.extend(read(&entry).into_iter().flat_map(|written| written.nodes));
    }
    all.sort_by(|one, other| (&one.node, other.since).cmp(&(&other.node, one.since)));
    all.dedup_by(|later, first| later.node == first.node);
    Ok(all)
}
