//! The common end of every transport's handshake: from an authenticated connection to a session.

use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use wire::text::printable_short;

use super::{Shared, handlers::Helpers, link::Connected, session};
use crate::{
    faults::Certificate,
    sessions::{SessionRefusal, SessionRequest},
};

/// How long a node that already has a session may take to send something over a new connection. A connection that the node has abandoned
/// ends within it.
const LIVENESS_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the session of an authenticated node, to which this certificate was shown. Returns the tasks that still handle what the node has
/// sent, which the caller waits for once it has given the connection's slot back.
pub(super) async fn accept_node(
    session_request: SessionRequest,
    mut connected: Connected,
    shown: Certificate,
    shared: &Shared,
    shutdown: &CancellationToken,
) -> Option<Helpers> {
    let (node, peer, certificate) = (
        session_request.node.clone(),
        session_request.address,
        session_request.certificate.clone(),
    );
    let mut first = None;
    if shared.sessions.has(&node) {
        // a connection that the node abandoned before it was answered must not end the one in use
        match timeout(LIVENESS_TIMEOUT, connected.incoming.next()).await {
            Ok(Err(error)) => {
                debug!(node, %peer, %error, "connection closed before its session began");
                return None;
            }
            Ok(Ok(read)) => first = read,
            // open and silent: EdgeCore may be like that
            Err(_) => {}
        }
    }
    let registered = match shared
        .sessions
        .begin(session_request, shared.limits.nodes, shutdown)
    {
        Ok(registered) => registered,
        Err(SessionRefusal::TooMany) => {
            let limit = shared.limits.nodes;
            warn!(
                node,
                limit, "CloudHub connection rejected: node limit reached (--max-nodes)"
            );
            return None;
        }
        Err(SessionRefusal::Superseded) => {
            debug!(node, %peer, "session superseded by a newer connection of the node");
            return None;
        }
    };
    // registered first, so that a change from now on ends it as all others
    if let Some(certificate) = &certificate
        && let Some(why) = Box::pin(shared.refusal(&node, certificate)).await
    {
        warn!(node, %peer, reason = why, "CloudHub connection rejected");
        return None;
    }
    if shared.faults.certificate_fault() != shown {
        debug!(node, %peer, "certificate changed during the handshake; connection closed");
        return None;
    }
    info!(node, %peer, "node connected");
    let ends = connected.with(
        &shared.faults,
        &node,
        first,
        shared.limits.write,
        &registered.traffic,
    );
    let (ended, helpers) = session::run(&node, ends, shared, &registered).await;
    // the table's entry goes first: whatever the helpers still do, the node is not connected
    drop(registered);
    info!(node, reason = printable_short(&ended), "node disconnected");
    Some(helpers)
}
