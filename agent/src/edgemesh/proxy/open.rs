//! An open socket of a Service: it can be told other endpoints, and closed.

use std::{io, net::IpAddr, sync::Arc};

use tokio::{sync::watch, task::JoinHandle};

use super::{
    backend::Backend,
    budget::Budget,
    plan::{Place, Target},
    tcp::{self, Connections},
    udp,
};
use crate::edgemesh::{dialer::Dialer, snapshot::Protocol};

/// What is listened to; connections that it has taken outlive it.
#[derive(Debug)]
pub(super) struct Open {
    target: watch::Sender<Arc<Target>>,
    serving: JoinHandle<()>,
}

impl Open {
    /// Listens, and serves from now on.
    pub(super) fn new(
        place: Place,
        target: Target,
        (budget, address, dialer): (Budget, Option<Arc<IpAddr>>, Dialer),
        connections: &Connections,
    ) -> io::Result<Self> {
        let (target, targets) = watch::channel(Arc::new(target));
        let backend = Backend::new(targets, budget, address, dialer);
        let serving = match place.protocol {
            Protocol::Tcp => {
                tokio::spawn(tcp::serve(tcp::listen(place.address)?, backend, connections.clone()))
            }
            Protocol::Udp => tokio::spawn(udp::serve(udp::listen(place.address)?, backend)),
        };
        Ok(Self { target, serving })
    }

    /// From now on connections go to these endpoints.
    pub(super) fn set(&self, target: Target) {
        self.target.send_if_modified(|current| {
            let is_new = **current != target;
            if is_new {
                *current = Arc::new(target);
            }
            is_new
        });
    }

    /// Closes the socket; when this has ended, it can be listened there again.
    pub(super) async fn close(mut self) {
        self.serving.abort();
        // it was told to end, and has nothing to say
        let _ = (&mut self.serving).await;
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
