//! Which ports of this machine the cloud may call: never the agent's own, which give access to the node's pods, devices and
//! messages.

use std::{collections::BTreeSet, fmt, net::SocketAddr, sync::Arc};

use http::StatusCode;
use tokio::sync::watch;

use super::call::CallError;

/// The default ports of kubelet and MetaServer, wherever this agent may have put its own.
const RESERVED_PORTS: [u16; 3] = [10250, 10350, 10550];

/// The address of a server of this agent, once it listens.
type BoundAddress = watch::Receiver<Option<SocketAddr>>;

/// The ports that may be called. Cheap to clone.
#[derive(Clone, Default)]
pub struct Ports {
    allowed: Arc<BTreeSet<u16>>,
    own: Arc<BTreeSet<u16>>,
    listening: Vec<BoundAddress>,
}

impl Ports {
    /// Allows the ports in `allowed` (all, if empty), but for the agent's `own` configured ports.
    pub fn new(allowed: BTreeSet<u16>, own: BTreeSet<u16>) -> Self {
        Self {
            allowed: Arc::new(allowed),
            own: Arc::new(own),
            listening: Vec::new(),
        }
    }

    /// Excludes the port of a server that has started.
    #[must_use]
    pub fn excluding(mut self, listening: BoundAddress) -> Self {
        self.listening.push(listening);
        self
    }

    /// Checks that the cloud may call a port.
    pub(super) fn check(&self, port: u16) -> Result<(), CallError> {
        let listens = |listening: &BoundAddress| {
            listening
                .borrow()
                .is_some_and(|address| address.port() == port)
        };
        if RESERVED_PORTS.contains(&port)
            || self.own.contains(&port)
            || self.listening.iter().any(listens)
        {
            let why = format!("port {port} is one of the edge agent's own, which no rule may call");
            return Err(CallError::new(StatusCode::FORBIDDEN, why));
        }
        if !self.allowed.is_empty() && !self.allowed.contains(&port) {
            let why =
                format!("port {port} is not among modules.serviceBus.allowedPorts of this node");
            return Err(CallError::new(StatusCode::FORBIDDEN, why));
        }
        Ok(())
    }
}

impl fmt::Debug for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ports")
            .field("allowed", &self.allowed)
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_own_ports_are_never_called() {
        let (listens, listening) = watch::channel(None);
        let ports = Ports::new(BTreeSet::new(), BTreeSet::from([1884])).excluding(listening);
        for own in [10250, 10350, 10550, 1884] {
            assert_eq!(ports.check(own).unwrap_err().status, StatusCode::FORBIDDEN);
        }
        assert_eq!((ports.check(8080), ports.check(9060)), (Ok(()), Ok(())));
        listens.send_replace(Some(([127, 0, 0, 1], 9060).into()));
        assert!(ports.check(9060).is_err());
        let few = Ports::new(BTreeSet::from([8080, 10550]), BTreeSet::new());
        assert!(few.check(8080).is_ok() && few.check(8081).is_err() && few.check(10550).is_err());
    }
}
