//! How many connections over the relay there may be: in all, of one client, to one node, and of one client to one node, so that none of
//! them takes everything.

use std::{net::IpAddr, sync::Arc};

use limits::{NoShare, Share, ShareLimits, Shares};

/// One client, and the connections to one node, get at most a quarter of all, so that three of them leave room for others.
const FRACTION: usize = 4;
/// Of the connections to one node, one client gets at most half.
const CLIENT_OF_NODE_FRACTION: usize = 2;

/// The limits, and what of them is in use; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct StreamLimits {
    clients: Shares<IpAddr>,
    nodes: Shares<Arc<str>>,
    client_of_node: Shares<(IpAddr, Arc<str>)>,
}

/// Allows one connection; dropping it makes room for another.
#[derive(Debug)]
pub(super) struct StreamPermit {
    _of_client: Share<IpAddr>,
    _of_node: Share<Arc<str>>,
    _of_client_of_node: Share<(IpAddr, Arc<str>)>,
}

impl StreamLimits {
    /// Sets the limit of all connections together.
    pub(super) fn new(all: usize) -> Self {
        let each = (all / FRACTION).max(1);
        Self {
            clients: Shares::new(ShareLimits { all, each }),
            nodes: Shares::new(ShareLimits { all, each }),
            client_of_node: Shares::new(ShareLimits {
                all,
                each: (each / CLIENT_OF_NODE_FRACTION).max(1),
            }),
        }
    }

    /// Admits one more connection of a client to a node.
    pub(super) fn admit(&self, client: IpAddr, node: &str) -> Result<StreamPermit, NoShare> {
        let node: Arc<str> = node.into();
        Ok(StreamPermit {
            _of_client_of_node: self.client_of_node.admit((client, Arc::clone(&node)))?,
            _of_client: self.clients.admit(client)?,
            _of_node: self.nodes.admit(node)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_and_one_node_leave_room_for_others() {
        let limits = StreamLimits::new(512);
        let [crowd, second, third] = [1, 2, 3].map(|last| IpAddr::from([10, 0, 0, last]));
        let fill = |client, node: &str| -> Vec<_> {
            (0..600)
                .map_while(|_| limits.admit(client, node).ok())
                .collect()
        };
        let first = fill(crowd, "edge-2");
        assert_eq!(
            first.len(),
            64,
            "it leaves room for other clients of the same node"
        );
        let more = fill(crowd, "edge-3");
        assert_eq!(more.len(), 64);
        assert!(
            limits.admit(crowd, "edge-4").is_err(),
            "it leaves room for other clients"
        );
        let others = fill(second, "edge-2");
        assert_eq!(others.len(), 64);
        assert!(limits.admit(third, "edge-2").is_err() && limits.admit(third, "edge-4").is_ok());
        drop((first, more, others));
        assert_eq!(
            fill(third, "edge-2").len(),
            64,
            "what is over is given back"
        );
    }
}
