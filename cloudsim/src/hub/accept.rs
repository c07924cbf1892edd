//! From a connection to a session: what every transport does once a node has shown who it is.

use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{Shared, link::Connected, session};
use crate::{
    faults::Certificate,
    sessions::{Arrival, Refused},
};

/// A node that has a session already shows within this time that somebody is behind the new connection; a connection that
/// the node has given up ends in it.
const PROOF: Duration = Duration::from_secs(1);

/// Runs the session of a node that has shown who it is, and was shown this certificate.
pub(super) async fn accept_node(
    arrival: Arrival,
    mut connected: Connected,
    shown: Certificate,
    shared: &Shared,
    shutdown: &CancellationToken,
) {
    let (node, peer, certificate) = (arrival.node.clone(), arrival.address, arrival.certificate.clone());
    let mut first = None;
    if shared.sessions.has(&node) {
        // a connection that the node gave up before it was answered must not end the one that it uses
        match timeout(PROOF, connected.incoming.next()).await {
            Ok(Err(error)) => {
                return debug!(node, %peer, %error, "a connection ended before its session began");
            }
            Ok(Ok(read)) => first = read.map(|(message, _)| message),
            // open and silent: EdgeCore may be like that
            Err(_) => {}
        }
    }
    let registered = match shared.sessions.begin(arrival, shared.limits.nodes, shutdown) {
        Ok(registered) => registered,
        Err(Refused::TooMany) => {
            let limit = shared.limits.nodes;
            return warn!(node, limit, "too many nodes: the connection was refused");
        }
        Err(Refused::Overtaken) => return debug!(node, %peer, "the node has connected anew meanwhile"),
    };
    // registered first: a change from now on ends it as all others
    if let Some(certificate) = &certificate
        && let Some(why) = shared.refusal(&node, certificate).await
    {
        return warn!(node, %peer, why, "the connection was refused");
    }
    if shared.faults.shown() != shown {
        return debug!(node, %peer, "the certificate that the node was shown is another one by now");
    }
    info!(node, %peer, "connected");
    let ends = connected.with(&shared.faults, &node, first, shared.limits.write, &registered.traffic);
    let ended = session::run(&node, ends, shared, &registered).await;
    info!(node, reason = %ended, "disconnected");
}
