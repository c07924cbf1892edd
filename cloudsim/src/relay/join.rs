//! Joins a stream to one of another node.

use std::{sync::Arc, time::Duration};

use limits::{NoShare, Share};
use quinn::Connection;
use tokio::time::timeout;
use tracing::debug;
use wire::{
    relay::{Answer, Open, encode},
    text::printable_short,
};

use super::{
    splice::{NodeStream, splice},
    stream::{Between, BiStream, not_connected, open_stream, read_message},
    table::{ENDED, Relays},
};

/// How long a node may take to send a message, and the other one to take it.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Who opens a stream.
#[derive(Clone)]
pub(super) enum Asker {
    /// A node that is connected here, of this name.
    Node(Arc<str>),
    /// Another replica, for one of its nodes.
    Replica,
}

/// Joins a stream to one of the node that it names.
pub(super) async fn join(
    connection: &Connection,
    (mut send, mut receive): BiStream,
    asker: Asker,
    relays: &Relays,
) {
    let asked = timeout(MESSAGE_TIMEOUT, async {
        let unnamed = |error| format!("no other node was named: {error}");
        let (from, to) = match &asker {
            Asker::Node(from) => {
                let Open { node } = read_message(&mut receive).await.map_err(unnamed)?;
                (Arc::clone(from), node)
            }
            Asker::Replica => {
                let Between { from, to } = read_message(&mut receive).await.map_err(unnamed)?;
                (from.into(), to)
            }
        };
        let opened = match (&asker, relays.replicas()) {
            (Asker::Node(_), Some(replicas)) if to != *from && !relays.has(&to) => {
                let (connection, stream) = replicas.open(&to, &from).await?;
                Opened {
                    connection,
                    stream,
                    _share: None,
                }
            }
            _ => open(&to, &from, relays).await?,
        };
        Ok::<_, String>((from, to, opened))
    });
    match asked
        .await
        .unwrap_or_else(|_| Err(format!("no connection within {MESSAGE_TIMEOUT:?}")))
    {
        Ok((from, to, opened)) => {
            let joined = relays.join(&from, &to);
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
            let node = match &asker {
                Asker::Node(from) => from,
                Asker::Replica => "of another replica",
            };
            debug!(
                node,
                error = why,
                "failed to connect to another node through the relay"
            );
            if let Ok(answer) = encode(&Answer::refused(why)) {
                // a node that does not listen needs no answer
                let _ = timeout(MESSAGE_TIMEOUT, send.write_all(&answer)).await;
            }
            // one that has ended needs no stop
            let _ = receive.stop(ENDED);
        }
    }
}

/// A stream to a node, and its share of those that may be open.
struct Opened {
    connection: Connection,
    stream: BiStream,
    _share: Option<Share<Arc<str>>>,
}

/// Opens a stream to a node, and sends it the name of the node that asks; the error is the reason for that one.
async fn open(to: &str, from: &Arc<str>, relays: &Relays) -> Result<Opened, String> {
    let shown = printable_short(to);
    if to == &**from {
        return Err("a node has no connection to itself over the relay".to_owned());
    }
    let Some(peer) = relays.peer(to) else {
        return Err(not_connected(to));
    };
    let share = peer.stream_limit.admit(Arc::clone(from)).map_err(|full| match full {
        NoShare::All => format!("node {shown} has as many connections over the relay as it may have"),
        NoShare::Each => {
            format!("this node has as many connections to node {shown} over the relay as one node may have")
        }
    })?;
    let open = Open {
        node: from.to_string(),
    };
    let stream = open_stream(&peer.connection, &open).await;
    Ok(Opened {
        connection: peer.connection,
        stream: stream.map_err(|error| format!("node {shown} accepts no stream: {error}"))?,
        _share: Some(share),
    })
}
