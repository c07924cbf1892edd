//! One node's connection to the relay, until it ends.

use std::time::Duration;

use limits::Rate;
use quinn::{Connection, RecvStream};
use tokio::{
    task::JoinSet,
    time::{sleep_until, timeout},
};
use tracing::debug;
use wire::{
    enroll::is_node_name,
    relay::{MAX_REPORT, Report, decode},
    text::printable_short,
};

use super::{
    join::{Asker, join},
    stream::Failure,
    table::{ENDED, RelayEntry, Relays},
};
use crate::faults::{Faults, Link, LinkState, sleep_until_opt};

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
    let is_cut = clock::select! {
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
    let asker = Asker::Node(node.into());
    let mut rate = Rate::new(STREAMS_PER_SECOND, STREAMS_BURST, clock::Instant::now());
    loop {
        let accept = async {
            // before the next stream is accepted: until then QUIC gives the node no credit for more
            let ready = rate.ready_at();
            rate.record(clock::Instant::now());
            sleep_until(ready).await;
            connection.accept_bi().await
        };
        tokio::pin!(accept);
        let stream = loop {
            clock::select! {
                // cancel-safe: the one that is not ready goes on
                stream = &mut accept => break stream,
                Some(_) = tasks.join_next() => {}
            }
        };
        let Ok(stream) = stream else { return };
        let (connection, asker, relays) = (connection.clone(), asker.clone(), relays.clone());
        tasks.spawn(async move { join(&connection, stream, asker, &relays).await });
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
        let LinkState { until, .. } =
            LinkState::of(faults.on(node).as_ref(), clock::Instant::now());
        clock::select! {
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
    let link = LinkState::of(set.as_ref(), clock::Instant::now()).link;
    link != Link::Up || set.is_some_and(|set| set.conditions().cut_relay == Some(true))
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
