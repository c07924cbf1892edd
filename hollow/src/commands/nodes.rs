//! `cloudsim nodes`: lists nodes and their connections.

use std::collections::BTreeMap;

use cloudsim::{
    CountedSessions, of_all_replicas,
    sessions::{Count, NodeSession, Transport},
};
use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    listing::{Column, Listing, Row, Rows, show},
    node, objects,
    remote::Remote,
    table::age,
};
use crate::cli::{Access, ListArgs, NodeCommand};

#[derive(Deserialize)]
struct Sessions {
    nodes: Vec<NodeSession>,
}

const COLUMNS: [Column; 10] = [
    Column::new("NAME"),
    Column::new("STATUS"),
    Column::new("CONNECTED"),
    Column::age("SINCE"),
    Column::new("ADDRESS"),
    Column::new("QUEUE"),
    Column::wide("TRANSPORT"),
    Column::wide("HUB"),
    Column::wide("SENT"),
    Column::wide("RECEIVED"),
];

pub(super) async fn run(
    access: &Access,
    list: ListArgs,
    command: Option<NodeCommand>,
) -> anyhow::Result<()> {
    let list = match command {
        None => list,
        Some(NodeCommand::List(more)) => list.or(more),
        Some(NodeCommand::Reset { name, .. }) => {
            list.refuse_for("reset")?;
            return node::reset(access, name).await;
        }
    };
    let cloud = Remote::of(access).await?;
    show(&list, async || listing(&cloud).await).await
}

async fn listing(cloud: &Remote) -> anyhow::Result<Listing> {
    let is_cluster = cloud.is_a_cluster().await?;
    let CountedSessions {
        sessions,
        is_complete,
    } = sessions(cloud).await?;
    let mut warnings = Vec::new();
    let nodes = objects::list::<Node>(&cloud.client, &mut warnings).await?;
    let ready = nodes
        .iter()
        .map(|node| (node.name_any(), readiness(node)))
        .collect();
    let now = clock::now();
    Ok(Listing {
        document: document(&ready, &sessions, is_complete),
        tables: vec![Rows {
            if_empty: if_empty(is_cluster),
            ..table(&ready, &sessions, is_complete, now)
        }],
        notes: rivals(&sessions, now),
        warnings,
    })
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
    let nodes = rows(ready, sessions)
        .into_iter()
        .map(|(name, (status, session))| node_document(name, status, session))
        .collect::<Vec<_>>();
    if is_complete {
        json!({"nodes": nodes})
    } else {
        json!({"nodes": nodes, "sessionsComplete": false})
    }
}

fn node_document(name: &str, status: &str, session: Option<&NodeSession>) -> Value {
    json!({"name": name, "status": status, "session": session})
}

/// Returns the table for people; without all sessions, it is unknown whether the other nodes are connected.
fn table(
    ready: &BTreeMap<String, &'static str>,
    sessions: &[NodeSession],
    is_complete: bool,
    now: Timestamp,
) -> Rows {
    let row = |(name, (status, session)): (&str, (&str, Option<&NodeSession>))| Row {
        name: format!("node/{name}"),
        id: name.to_owned(),
        document: node_document(name, status, session),
        cells: cells((name, status), session, is_complete, now),
    };
    Rows {
        columns: &COLUMNS,
        rows: rows(ready, sessions).into_iter().map(row).collect(),
        if_empty: "",
    }
}

/// Returns the ways to get a node. Those of a cloud in cluster mode are never in its process.
fn if_empty(is_cluster: bool) -> &'static str {
    match is_cluster {
        true => {
            "no nodes; join a machine with `edge-agent join`, or run simulated nodes with `cloudsim hollow`"
        }
        false => {
            "no nodes; start `cloudsim up --nodes 1`, or join a machine with `edge-agent join`"
        }
    }
}

fn cells(
    (name, status): (&str, &str),
    session: Option<&NodeSession>,
    is_complete: bool,
    now: Timestamp,
) -> Vec<String> {
    let Some(session) = session else {
        let connected = if is_complete { "no" } else { "unknown" };
        let known = [name, status, connected];
        let missing = ["-"; COLUMNS.len() - 3];
        return known
            .iter()
            .chain(&missing)
            .map(|&cell| cell.to_owned())
            .collect();
    };
    let transport = match session.transport {
        Transport::WebSocket => "WebSocket",
        Transport::Quic => "QUIC",
    };
    vec![
        name.to_owned(),
        status.to_owned(),
        "yes".to_owned(),
        age(session.since, now),
        session.address.to_string(),
        session.queue.to_string(),
        transport.to_owned(),
        session.replica.to_string(),
        count(session.sent),
        count(session.received),
    ]
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
            tunnel: None,
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
        let lines = |table: Rows| -> Vec<String> {
            let cells = table.rows.iter().map(|row| row.cells.join(" "));
            cells.collect()
        };
        assert_eq!(
            lines(table(&ready, &sessions, true, now)),
            [
                "edge-1 Ready yes 3m 192.0.2.7:4711 3 WebSocket 2 12 (34 kB) 5 (678 B)",
                "edge-2 Unregistered yes 3m 192.0.2.7:4711 3 QUIC 2 12 (34 kB) 5 (678 B)",
                "edge-3 NotReady no - - - - - - -",
            ]
        );
        assert_eq!(
            lines(table(&ready, &[], false, now))[0],
            "edge-1 Ready unknown - - - - - - -"
        );
        assert_eq!(document(&ready, &[], false)["sessionsComplete"], false);
        assert!(rivals(&sessions, now).is_empty());
        for (is_cluster, way) in [(true, "cloudsim hollow"), (false, "up --nodes")] {
            assert!(if_empty(is_cluster).contains(way), "{is_cluster}");
            assert_eq!(if_empty(is_cluster).contains("up --nodes"), !is_cluster);
        }
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
