//! The sessions of nodes at all replicas: each replica records its own when they change and every few seconds, for `cloudsim nodes` and for
//! the other replicas, so that a node has one session among all of them.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use clock::{HashMap, Instant};
use jiff::Timestamp;
use kube::Client;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::debug;
use wire::instance::Instance;

use super::leader::LEASE_DURATION;
use crate::{
    peers::{ConnectionRecord, PeerNodes, Reached},
    pki::{Change, Precondition, RecordEntry, Records, RecordsError},
    sessions::{CountedSessions, NodeSession, RemoteSession, Sessions},
};

/// The kind of the records.
const KIND: &str = "sessions";
/// How often they are written, and those of others are read.
const WRITE_INTERVAL: Duration = Duration::from_secs(5);
/// How often it is checked whether the own sessions have changed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How much older than the newest record one may be: older ones are of replicas that have ended.
const MAX_LAG: Duration = LEASE_DURATION;
/// How old a record may be by the reader's clock, which may be wrong.
const MAX_AGE: Duration = Duration::from_secs(30);
/// How long after the start of a replica its nodes may still be on their way to it.
const COUNT_PERIOD: Duration = Duration::from_secs(10);
/// The most nodes in one record: each needs some 500 bytes for its connections, and a ConfigMap holds a million.
const MAX_SESSIONS: usize = 2000;

#[derive(Deserialize, Serialize)]
struct SessionsRecord {
    at: Timestamp,
    /// When the replica started.
    #[serde(default)]
    started: Option<Timestamp>,
    nodes: Vec<NodeSession>,
    /// Where other replicas reach this one.
    #[serde(default)]
    address: Option<SocketAddr>,
    /// The stream tunnels of nodes.
    #[serde(default)]
    tunnels: Vec<ConnectionRecord>,
    /// Where other replicas reach the relay of this one.
    #[serde(default)]
    relay: Option<SocketAddr>,
    /// The connections of nodes to the relay.
    #[serde(default)]
    relayed: Vec<ConnectionRecord>,
    /// The run of the agent that has each node's session.
    #[serde(default)]
    runs: HashMap<String, String>,
}

/// Writes the records until `stop`.
pub(super) async fn run(
    client: Client,
    (replica, reached): (String, Reached),
    sessions: Sessions,
    stop: CancellationToken,
) {
    let records = Records::in_cluster(KIND, &client);
    let started = clock::now();
    let (mut written, mut written_at) = (None, Instant::now());
    let mut ticks = interval(CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // cancel-safe: a tick that is not seen comes again
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let mut nodes = sessions.list();
        nodes.truncate(MAX_SESSIONS);
        let mut tunnels = sessions.tunnels().list();
        tunnels.truncate(MAX_SESSIONS);
        let known: Vec<_> = nodes
            .iter()
            .map(|session| (session.node.clone(), session.since))
            .collect();
        let mut relayed = sessions.relays().connections();
        relayed.truncate(MAX_SESSIONS);
        let known = (known, tunnels.clone(), relayed.clone());
        if written.as_ref() == Some(&known) && written_at.elapsed() < WRITE_INTERVAL {
            continue;
        }
        (written, written_at) = (Some(known), Instant::now());
        let mut runs = sessions.runs();
        let runs = nodes
            .iter()
            .filter_map(|session| runs.remove_entry(&session.node))
            .collect();
        let value = json!(SessionsRecord {
            at: clock::now(),
            started: Some(started),
            nodes,
            address: reached.requests,
            tunnels,
            relay: reached.relay,
            relayed,
            runs,
        });
        let mut changes = vec![Change {
            name: replica.clone(),
            expected: Precondition::Anything,
            value: Some(value),
        }];
        let known = records.list().await;
        if let Ok(known) = &known {
            let alive = alive(known, clock::now());
            let is_dead =
                |entry: &&RecordEntry| entry.name != replica && !alive.contains_key(&entry.name);
            changes.extend(known.iter().filter(is_dead).map(removal));
            sessions.set_remote(remote(alive, &replica));
        }
        if let Err(error) = records.write(changes).await {
            debug!(
                error = &error as &dyn std::error::Error,
                "failed to record the sessions of this replica"
            );
        }
    }
    let gone = Change {
        name: replica,
        expected: Precondition::Anything,
        value: None,
    };
    let _ = tokio::time::timeout(WRITE_INTERVAL, records.write(vec![gone])).await;
}

/// Returns the records of running replicas, by the replica's name. A replica that no longer writes has ended when its Lease would
/// have run out: by the clocks of the replicas, and more coarsely by the reader's.
fn alive(known: &[RecordEntry], now: Timestamp) -> BTreeMap<String, SessionsRecord> {
    let read = |entry: &RecordEntry| {
        Some((
            entry.name.clone(),
            SessionsRecord::deserialize(&entry.value).ok()?,
        ))
    };
    let mut all: BTreeMap<_, _> = known.iter().filter_map(read).collect();
    let newest = all.values().map(|record| record.at).max().unwrap_or(now);
    all.retain(|_, record| {
        newest.duration_since(record.at).unsigned_abs() <= MAX_LAG
            && now.duration_since(record.at).unsigned_abs() < MAX_AGE
    });
    all
}

/// Returns the nodes of all replicas but `own` that forwarded requests reach.
pub(super) async fn peers(client: &Client, own: &str) -> Result<Vec<PeerNodes>, RecordsError> {
    let known = Records::in_cluster(KIND, client).list().await?;
    let nodes = |(replica, record): (String, SessionsRecord)| {
        let sessions = record.nodes.into_iter();
        Some(PeerNodes {
            replica: record.address.filter(|_| replica != own)?,
            sessions: sessions
                .map(|session| (session.node, session.since))
                .collect(),
            tunnels: record.tunnels,
            relay: record.relay,
            relayed: record.relayed,
        })
    };
    let alive = alive(&known, clock::now());
    Ok(alive.into_iter().filter_map(nodes).collect())
}

/// Returns the removal of a record whose replica has ended.
fn removal(entry: &RecordEntry) -> Change {
    Change {
        name: entry.name.clone(),
        expected: entry.version.clone(),
        value: None,
    }
}

/// Returns the sessions at all replicas but `own`.
fn remote(alive: BTreeMap<String, SessionsRecord>, own: &str) -> Vec<RemoteSession> {
    let mut all = Vec::new();
    for (replica, SessionsRecord { nodes, runs, .. }) in alive {
        if replica == own {
            continue;
        }
        all.extend(nodes.into_iter().map(|session| RemoteSession {
            run: runs.get(&session.node).and_then(|run| Instance::parse(run)),
            node: session.node,
            since: session.since,
            replica: replica.clone(),
        }));
    }
    all
}

/// Returns the sessions of all running replicas.
pub async fn of_all_replicas(client: &Client) -> Result<CountedSessions, RecordsError> {
    Ok(count_sessions(
        &Records::in_cluster(KIND, client).list().await?,
        clock::now(),
    ))
}

fn count_sessions(known: &[RecordEntry], now: Timestamp) -> CountedSessions {
    let alive = alive(known, now);
    let has_counted = |record: &SessionsRecord| {
        record
            .started
            .is_none_or(|started| now.duration_since(started).unsigned_abs() >= COUNT_PERIOD)
    };
    let is_complete = !alive.is_empty() && alive.values().all(has_counted);
    let records = alive.values();
    let tunnels: HashMap<&str, Timestamp> = records
        .flat_map(|record| &record.tunnels)
        .map(|tunnel| (tunnel.node.as_str(), tunnel.since))
        .collect();
    let mut sessions: Vec<NodeSession> = alive
        .values()
        .flat_map(|record| record.nodes.clone())
        .map(|session| NodeSession {
            tunnel: tunnels.get(session.node.as_str()).copied(),
            ..session
        })
        .collect();
    sessions.sort_by(|one, other| (&one.node, other.since).cmp(&(&other.node, one.since)));
    sessions.dedup_by(|later, first| later.node == first.node);
    CountedSessions {
        sessions,
        is_complete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record of a replica that started and wrote at these seconds, with a session of this node.
    fn entry(name: &str, started: i64, at: i64, node: &str) -> RecordEntry {
        let time = |second| Timestamp::from_second(second).unwrap().to_string();
        let count = json!({"messages": 0, "bytes": 0});
        let session = json!({
            "node": node, "since": time(started), "address": "192.0.2.1:1", "transport": "WebSocket", "replica": 1, "queue": 0,
            "sent": count, "received": count,
        });
        let value = json!({"at": time(at), "started": time(started), "nodes": [session]});
        RecordEntry {
            name: name.to_owned(),
            value,
            version: Precondition::Anything,
        }
    }

    #[test]
    fn sessions_of_a_dead_replica_end_and_those_of_a_new_one_are_not_counted_yet() {
        let counted = |entries: &[RecordEntry], now| {
            count_sessions(entries, Timestamp::from_second(now).unwrap())
        };
        let names = |found: &CountedSessions| {
            found
                .sessions
                .iter()
                .map(|one| one.node.clone())
                .collect::<Vec<_>>()
        };
        let (old, new) = (entry("a", 0, 100, "edge-1"), entry("b", 90, 112, "edge-2"));
        let both = counted(&[old.clone(), new.clone()], 113);
        assert_eq!(
            (names(&both), both.is_complete),
            (vec!["edge-1".to_owned(), "edge-2".to_owned()], true)
        );
        let later = counted(&[old.clone(), entry("b", 90, 117, "edge-2")], 118);
        assert_eq!(
            (names(&later), later.is_complete),
            (vec!["edge-2".to_owned()], true)
        );
        assert!(
            !counted(&[entry("b", 90, 95, "edge-2")], 95).is_complete,
            "its nodes may be on their way"
        );
        assert_eq!(
            counted(&[old], 131),
            CountedSessions {
                sessions: Vec::new(),
                is_complete: false
            }
        );
    }
}
