//! One node's connection to the relay, from its greeting to its end.

use std::{sync::Arc, time::Duration};

use quinn::{Connection, RecvStream};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{sleep_until, timeout},
};
use tokio_util::task::TaskTracker;
use tracing::debug;
use wire::{
    relay::{Answer, HEADER_LENGTH, MAX_REPORT, Open, Report, body_length, decode, encode},
    text::{printable, short},
};

use super::{
    splice::{Both, splice},
    table::{ENDED, Entry, Relays},
};
use crate::faults::{Faults, Link, LinkState, now};

/// How long a node may take to say what it wants, and the other one to take it.
const ANSWER: Duration = Duration::from_secs(5);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Serves a node's connection until it ends.
pub(super) async fn run(
    connection: &Connection,
    node: &str,
    entry: &Entry,
    relays: &Relays,
    faults: &Faults,
) {
    let tasks = TaskTracker::new();
    let from: Arc<str> = node.into();
    let streams = async {
        while let Ok(stream) = connection.accept_bi().await {
            let (from, relays) = (Arc::clone(&from), relays.clone());
            tasks.spawn(async move { join(stream, &from, &relays).await });
        }
    };
    let reports = async {
        // one at a time: a node tells of its ways when they have changed
        while let Ok(stream) = connection.accept_uni().await {
            match timeout(ANSWER, report(stream)).await {
                Ok(Ok(report)) => entry.reported(report.paths),
                Ok(Err(error)) => debug!(node, %error, "a report of the ways to other nodes is unusable"),
                Err(_) => debug!(node, "a report of the ways to other nodes did not come in time"),
            }
        }
    };
    tokio::select! {
        // cancel-safe, all: the connection ends
        () = streams => {}
        () = reports => {}
        () = cut(node, faults) => connection.close(ENDED, b"the link is cut, on purpose"),
    }
    connection.close(ENDED, b"ended");
    tasks.close();
    // its streams have ended with the connection
    tasks.wait().await;
}

/// Waits until the node's link, or its way to the relay, is cut on purpose.
async fn cut(node: &str, faults: &Faults) {
    let mut changes = faults.changes();
    loop {
        changes.borrow_and_update();
        if is_cut(node, faults) {
            return;
        }
        let LinkState { until, .. } = LinkState::of(faults.on(node).as_ref(), now());
        let until = async {
            match until {
                Some(until) => sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // cancel-safe, both: they hold no data; the sender lives in the faults
            _ = changes.changed() => {}
            () = until => {}
        }
    }
}

/// Whether the node may not come now.
pub(super) fn is_cut(node: &str, faults: &Faults) -> bool {
    let set = faults.on(node);
    // a half-open link is as good as cut: QUIC would find that out by itself
    let link = LinkState::of(set.as_ref(), now()).link;
    link != Link::Up || set.is_some_and(|set| set.lowered.cut_relay == Some(true))
}

async fn report(mut stream: RecvStream) -> Result<Report, Failure> {
    Ok(decode(&stream.read_to_end(MAX_REPORT).await?)?)
}

/// Joins a node's stream to one of the node that it names.
async fn join((mut send, mut receive): Both, from: &str, relays: &Relays) {
    let asked = timeout(ANSWER, async {
        let Open { node } =
            wanted(&mut receive).await.map_err(|error| format!("no other node was named: {error}"))?;
        let opened = open(&node, from, relays).await?;
        Ok::<_, String>((node, opened))
    });
    match asked.await.unwrap_or_else(|_| Err(format!("there was no way within {ANSWER:?}"))) {
        Ok((to, Opened { stream, _place })) => {
            let counted = relays.join(from, &to);
            // what the other node answers goes through as it is
            splice((send, receive), stream, &counted).await;
        }
        Err(why) => {
            relays.metrics().refused();
            debug!(node = from, why, "no way to another node over the relay");
            if let Ok(answer) = encode(&Answer::refused(why)) {
                // a node that does not listen needs no answer
                let _ = timeout(ANSWER, send.write_all(&answer)).await;
            }
            // one that has ended needs no stop
            let _ = receive.stop(ENDED);
        }
    }
}

async fn wanted(stream: &mut RecvStream) -> Result<Open, Failure> {
    let mut header = [0; HEADER_LENGTH];
    stream.read_exact(&mut header).await?;
    let mut text = vec![0; body_length(header)?];
    stream.read_exact(&mut text).await?;
    Ok(decode(&text)?)
}

/// A stream to a node, and its place among those.
struct Opened {
    stream: Both,
    _place: OwnedSemaphorePermit,
}

/// Opens a stream to a node, and tells it who wants it; or why there is none.
async fn open(to: &str, from: &str, relays: &Relays) -> Result<Opened, String> {
    let shown = printable(&short(to));
    if to == from {
        return Err("a node has no way to itself over the relay".to_owned());
    }
    let Some(peer) = relays.peer(to) else {
        return Err(format!(
            "node {shown} is not connected to the relay; `cloudsim mesh` lists those that are"
        ));
    };
    let Ok(_place) = Arc::clone(&peer.places).try_acquire_owned() else {
        return Err(format!("node {shown} has as many connections over the relay as it may have"));
    };
    let failed = |error: &dyn std::fmt::Display| format!("node {shown} takes no stream: {error}");
    let mut stream = peer.connection.open_bi().await.map_err(|error| failed(&error))?;
    let open = encode(&Open { node: from.to_owned() }).map_err(|error| failed(&error))?;
    stream.0.write_all(&open).await.map_err(|error| failed(&error))?;
    Ok(Opened { stream, _place })
}
