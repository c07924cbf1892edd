//! The log of nodes' refused requests.

use limits::excerpt;
use tracing::warn;
use wire::text::printable;

/// Logs why a request of `node` is refused. The reason may repeat what the node sent, so it is cleaned and shortened.
pub(super) fn log_refused(node: &str, reason: &str) {
    warn!(
        node,
        reason = printable(&excerpt(reason)),
        "request of a node rejected"
    );
}
