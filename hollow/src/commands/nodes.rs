//! `cloudsim nodes`: lists nodes and their connections.

use std::collections::BTreeMap;

use anyhow::Context;
use cloudsim::{
    CountedSessions, of_all_replicas,
    sessions::{Count, NodeSession, Transport},
};
use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt, api::ListParams};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    print, print_line,
    remote::Remote,
    table::{Table, age},
};
use crate::cli::{Access, Output};

#[derive(Deserialize)]
struct Sessions {
    nodes: Vec<NodeSession>,
}

pub(super) async fn run(access: &Access, output: Option<Output>) -> anyhow::Result<()> {
    let cloud = Remote::of(access).await?;
    let CountedSessions {
        sessions,
        is_complete,
    } = sessions(&cloud).await?;
    let nodes = Api::<Node>::all(cloud.client.clone())
        .list(&ListParams::default())
        .await;
    let nodes = nodes.context("cannot list nodes")?;
    let ready = nodes
        .iter()
        .map(|node| (node.name_any(), readiness(node)))
        .collect();
    if let Some(output) = output {
        return print(output, &document(&ready, &sessions, is_complete));
    }
    let now = Timestamp::now();
    print_line(
        table(&ready, (&sessions, is_complete), now)
            .to_string()
            .trim_end(),
    );
    for line in rivals(&sessions, now) {
        print_line(&line);
    }
    Ok(())
}

/// Returns the sessions of connected nodes.
pub(super) async fn sessions(cloud: &Remote) -> anyhow::Result<CountedSessions> {
    if cloud.is_a_cluster().await? {
        return Ok(of_all_replicas(&cloud.client).await?);
    }
    let sessions = cloud
        .ask::<Sessions>(Method::GET, "nodes", &())
        .await?
        .nodes;
    Ok(CountedSessions {
        sessions,
        is_complete: true,
    })
}

/// Returns a row for each node that is known or connected: its status, and its session if it has one.
fn rows<'a>(
    ready: &'a BTreeMap<String, &'static str>,
    sessions: &'a [NodeSession],
) -> BTreeMap<&'a str, (&'static str, Option<&'a NodeSession>)> {
    let mut rows: BTreeMap<_, _> = ready
        .iter()
        .map(|(name, &status)| (name.as_str(), (status, None)))
        .collect();
    for session in sessions {
        rows.entry(&session.node)
            .or_insert(("Unregistered", None))
            .1 = Some(session);
    }
    rows
}

/// Returns the document for programs. Unless the sessions are complete, it says so.
fn document(
    ready: &BTreeMap<String, &'static str>,
    sessions: &[NodeSession],
    is_complete: bool,
) -> Value {
    let node =
        |(name, (status, session))| json!({"name": name, "status": status, "session": session});
    let nodes = rows(ready, sessions)
        .into_iter()
        .map(node)
        .collect::<Vec<_>>();
    if is_complete {
        json!({"nodes": nodes})
    } else {
        json!({"nodes": nodes, "sessionsComplete": false})
    }
}

/// Returns the table for people; without all sessions, it is unknown whether the other nodes are connected.
fn table(
    ready: &BTreeMap<String, &'static str>,
    (sessions, is_complete): (&[NodeSession], bool),
    now: Timestamp,
) -> Table {
    let columns = [
        "NODE",
        "STATUS",
        "CONNECTED",
        "SINCE",
        "ADDRESS",
        "TRANSPORT",
        "HUB",
        "QUEUE",
        "SENT",
        "RECEIVED",
    ];
    let mut table = Table::new(&columns);
    for (name, (status, session)) in rows(ready, sessions) {
        let mut row = vec![name.to_owned(), status.to_owned()];
        match session {
            None => row.extend(
                [
                    if is_complete { "no" } else { "unknown" },
                    "-",
                    "-",
                    "-",
                    "-",
                    "-",
                    "-",
                    "-",
                ]
                .map(str::to_owned),
            ),
            Some(session) => row.extend([
                "yes".to_owned(),
                age(session.since, now),
                session.address.to_string(),
                match session.transport {
                    Transport::WebSocket => "WebSocket".to_owned(),
                    Transport::Quic => "QUIC".to_owned(),
                },
                session.replica.to_string(),
                session.queue.to_string(),
                count(session.sent),
                count(session.received),
            ]),
        }
        table.row(row);
    }
    table
}

/// Returns a line for each name that two agents use.
fn rivals(sessions: &[NodeSession], now: Timestamp) -> Vec<String> {
    let line = |session: &NodeSession| {
        let NodeSession {
            node,
            address,
            started,
            rival,
            ..
        } = session;
        let (rival, started) = (
            rival.as_ref()?,
            started.as_deref().unwrap_or("at an unknown time"),
        );
        Some(format!(
            "{node}: TWO AGENTS HAVE THIS NAME: {address} (started {started}) is connected; {} (started {}) was refused {} times, \
             last {} ago. Give one of them another name, or end one.",
            rival.address,
            rival.started,
            rival.refused,
            age(rival.last, now)
        ))
    };
    sessions.iter().filter_map(line).collect()
}

/// Reports whether the node is Ready.
pub(super) fn is_ready(node: &Node) -> bool {
    let conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions
        .into_iter()
        .find(|condition| condition.type_ == "Ready");
    ready.is_some_and(|condition| condition.status == "True")
}

fn readiness(node: &Node) -> &'static str {
    if is_ready(node) { "Ready" } else { "NotReady" }
}

fn count(count: Count) -> String {
    let Count { messages, bytes } = count;
    let size = match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    };
    format!("{messages} ({size})")
}

#[cfg(test)]
mod tests {
    use cloudsim::sessions::DuplicateAgent;

    use super::*;

    #[test]
    fn every_node_has_a_line() {
        let now: Timestamp = "2025-06-01T12:00:00Z".parse().unwrap();
        let session = |node: &str, transport| NodeSession {
            node: node.to_owned(),
            since: "2025-06-01T11:57:00Z".parse().unwrap(),
            address: ([192, 0, 2, 7], 4711).into(),
            transport,
            replica: 2,
            queue: 3,
            sent: Count {
                messages: 12,
                bytes: 34_567,
            },
            received: Count {
                messages: 5,
                bytes: 678,
            },
            started: Some("2025-06-01T11:00:00Z".to_owned()),
            rival: None,
        };
        let ready = [("edge-1", "Ready"), ("edge-3", "NotReady")]
            .map(|(name, is)| (name.to_owned(), is))
            .into();
        let sessions = [
            session("edge-1", Transport::WebSocket),
            session("edge-2", Transport::Quic),
        ];
        insta::assert_snapshot!(table(&ready, (&sessions, true), now).to_string());
        let uncounted = table(&ready, (&[], false), now).to_string();
        assert!(
            uncounted.contains("unknown") && !uncounted.contains(" no "),
            "{uncounted}"
        );
        assert_eq!(document(&ready, &[], false)["sessionsComplete"], false);
        assert!(rivals(&sessions, now).is_empty());
        let told = document(&ready, &sessions, true);
        let names: Vec<_> = told["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| &node["name"])
            .collect();
        assert_eq!(names, ["edge-1", "edge-2", "edge-3"]);
        assert_eq!(told["nodes"][0]["session"], json!(sessions[0]));
        assert_eq!(told["nodes"][1]["status"], "Unregistered");
        assert_eq!(
            told["nodes"][2],
            json!({"name": "edge-3", "status": "NotReady", "session": null})
        );
        let rival = DuplicateAgent {
            address: ([192, 0, 2, 9], 4712).into(),
            started: "2025-06-01T10:00:00Z".to_owned(),
            refused: 3,
            last: "2025-06-01T11:59:30Z".parse().unwrap(),
        };
        let two = NodeSession {
            rival: Some(rival),
            ..session("edge-1", Transport::WebSocket)
        };
        let lines = rivals(&[two], now);
        for part in [
            "edge-1: TWO AGENTS",
            "192.0.2.7:4711",
            "192.0.2.9:4712",
            "refused 3 times, last 30s ago",
        ] {
            assert!(lines[0].contains(part), "{part}: {lines:?}");
        }
    }
}
