//! One node's connection to the relay, until it ends.

use std::{sync::Arc, time::Duration};

use limits::{NoShare, Rate, Share};
use quinn::{Connection, RecvStream};
use tokio::{
    task::JoinSet,
    time::{sleep_until, timeout},
};
use tracing::debug;
use wire::{
    enroll::is_node_name,
    relay::{Answer, HEADER_LENGTH, MAX_REPORT, Open, Report, body_length, decode, encode},
    text::printable_short,
};

use super::{
    splice::{BiStream, NodeStream, splice},
    table::{ENDED, RelayEntry, Relays},
};
use crate::faults::{Faults, Link, LinkState, now, sleep_until_opt};

/// How long a node may take to send a message, and the other one to take it.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the streams of a connection that has ended may take to end by themselves.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// How many streams a node may open a second, since each makes another node sign for TLS …
const STREAMS_PER_SECOND: u32 = 100;
/// … and how many at once.
const STREAMS_BURST: u32 = 256;
/// The most names in a report.
const MAX_REPORTED: usize = 1000;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Serves a node's connection until it ends; returns why it has ended.
pub(super) async fn run(
    connection: &Connection,
    node: &str,
    entry: &RelayEntry,
    relays: &Relays,
    faults: &Faults,
) -> String {
    let mut tasks = JoinSet::new();
    let streams = accept_streams(connection, node, relays, &mut tasks);
    let reports = async {
        // one at a time: a node reports its paths when they have changed
        while let Ok(stream) = connection.accept_uni().await {
            match timeout(MESSAGE_TIMEOUT, read_report(stream)).await {
                Ok(Ok(report)) => entry.set_paths(report.paths),
                Ok(Err(error)) => {
                    let error = printable_short(error);
                    debug!(node, error, "report of the paths to other nodes rejected");
                }
                Err(_) => debug!(node, "report of the paths to other nodes timed out"),
            }
        }
    };
    const CUT: &str = "the link is cut by fault injection";
    let is_cut = tokio::select! {
        // cancel-safe: the connection ends
        () = streams => false,
        () = reports => false,
        () = wait_cut(node, faults) => true,
    };
    // before it is closed here, which would be the reason afterwards
    let why = if is_cut {
        CUT.to_owned()
    } else {
        connection
            .close_reason()
            .map(printable_short)
            .unwrap_or_default()
    };
    connection.close(ENDED, if is_cut { CUT.as_bytes() } else { b"ended" });
    // its streams end with the connection; one that does not is dropped
    let _ = timeout(END_TIMEOUT, async {
        while tasks.join_next().await.is_some() {}
    })
    .await;
    why
}

/// Serves the streams that a node opens, until its connection ends.
async fn accept_streams(
    connection: &Connection,
    node: &str,
    relays: &Relays,
    tasks: &mut JoinSet<()>,
) {
    let from: Arc<str> = node.into();
    let mut rate = Rate::new(STREAMS_PER_SECOND, STREAMS_BURST, now());
    loop {
        let accept = async {
            // before the next stream is accepted: until then QUIC gives the node no credit for more
            let ready = rate.ready_at();
            rate.record(now());
            sleep_until(ready.into()).await;
            connection.accept_bi().await
        };
        tokio::pin!(accept);
        let stream = loop {
            tokio::select! {
                // cancel-safe: the one that is not ready goes on
                stream = &mut accept => break stream,
                Some(_) = tasks.join_next() => {}
            }
        };
        let Ok(stream) = stream else { return };
        let (connection, from, relays) = (connection.clone(), Arc::clone(&from), relays.clone());
        tasks.spawn(async move { join(&connection, stream, &from, &relays).await });
    }
}

/// Waits until the node's link, or its connection to the relay, is cut on purpose.
async fn wait_cut(node: &str, faults: &Faults) {
    let mut changes = faults.changes();
    loop {
        changes.borrow_and_update();
        if is_cut(node, faults) {
            return;
        }
        let LinkState { until, .. } = LinkState::of(faults.on(node).as_ref(), now());
        tokio::select! {
            // cancel-safe: they hold no data; the sender lives in the faults
            _ = changes.changed() => {}
            () = sleep_until_opt(until) => {}
        }
    }
}

/// Reports whether the node may not connect now.
pub(super) fn is_cut(node: &str, faults: &Faults) -> bool {
    let set = faults.on(node);
    // a half-open link is as good as cut: QUIC would find that out by itself
    let link = LinkState::of(set.as_ref(), now()).link;
    link != Link::Up || set.is_some_and(|set| set.lowered.cut_relay == Some(true))
}

async fn read_report(mut stream: RecvStream) -> Result<Report, Failure> {
    let report: Report = decode(&stream.read_to_end(MAX_REPORT).await?)?;
    if report.paths.len() > MAX_REPORTED {
        return Err(format!(
            "it names {} nodes, of {MAX_REPORTED} at most",
            report.paths.len()
        )
        .into());
    }
    match report.paths.keys().find(|name| !is_node_name(name)) {
        Some(name) => Err(format!("{name:?} is no node's name").into()),
        None => Ok(report),
    }
}

/// Joins a node's stream to one of the node that it names.
async fn join(
    connection: &Connection,
    (mut send, mut receive): BiStream,
    from: &Arc<str>,
    relays: &Relays,
) {
    let asked = timeout(MESSAGE_TIMEOUT, async {
        let Open { node } = read_open(&mut receive)
            .await
            .map_err(|error| format!("no other node was named: {error}"))?;
        let opened = open(&node, from, relays).await?;
        Ok::<_, String>((node, opened))
    });
    match asked
        .await
        .unwrap_or_else(|_| Err(format!("no connection within {MESSAGE_TIMEOUT:?}")))
    {
        Ok((to, opened)) => {
            let joined = relays.join(from, &to);
            let one = NodeStream {
                connection,
                stream: (send, receive),
            };
            let other = NodeStream {
                connection: &opened.connection,
                stream: opened.stream,
            };
            // the other node's answer is copied as it is
            splice(one, other, &joined).await;
        }
        Err(why) => {
            relays.metrics().count_refused();
            debug!(node = %from, error = why, "failed to connect to another node through the relay");
            if let Ok(answer) = encode(&Answer::refused(why)) {
                // a node that does not listen needs no answer
                let _ = timeout(MESSAGE_TIMEOUT, send.write_all(&answer)).await;
            }
            // one that has ended needs no stop
            let _ = receive.stop(ENDED);
        }
    }
}

async fn read_open(stream: &mut RecvStream) -> Result<Open, Failure> {
    let mut header = [0; HEADER_LENGTH];
    stream.read_exact(&mut header).await?;
    let mut text = vec![0; body_length(header)?];
    stream.read_exact(&mut text).await?;
    Ok(decode(&text)?)
}

/// A stream to a node, and its share of those that may be open.
struct Opened {
    connection: Connection,
    stream: BiStream,
    _share: Share<Arc<str>>,
}

/// Opens a stream to a node, and sends it the name of the node that asks; the error is the reason for that one.
async fn open(to: &str, from: &Arc<str>, relays: &Relays) -> Result<Opened, String> {
    let shown = printable_short(to);
    if to == &**from {
        return Err("a node has no connection to itself over the relay".to_owned());
    }
    let Some(peer) = relays.peer(to) else {
        return Err(format!(
            "node {shown} is not connected to the relay; `cloudsim mesh` lists connected nodes"
        ));
    };
    let share = peer.stream_limit.admit(Arc::clone(from)).map_err(|full| match full {
        NoShare::All => format!("node {shown} has as many connections over the relay as it may have"),
        NoShare::Each => {
            format!("this node has as many connections to node {shown} over the relay as one node may have")
        }
    })?;
    let failed = |error: &dyn std::fmt::Display| format!("node {shown} accepts no stream: {error}");
    let mut stream = peer
        .connection
        .open_bi()
        .await
        .map_err(|error| failed(&error))?;
    let open = encode(&Open {
        node: from.to_string(),
    })
    .map_err(|error| failed(&error))?;
    stream
        .0
        .write_all(&open)
        .await
        .map_err(|error| failed(&error))?;
    Ok(Opened {
        connection: peer.connection,
        stream,
        _share: share,
    })
}
