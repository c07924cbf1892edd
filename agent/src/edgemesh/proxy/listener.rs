//! A listening socket of a Service, whose endpoints can be changed while it is open.

use std::{io, net::IpAddr, sync::Arc};

use tokio::{sync::watch, task::JoinHandle};

use super::{
    backend::Backend,
    budget::Budget,
    plan::{ListenAddress, Target},
    tcp::{self, Connections},
    udp,
};
use crate::edgemesh::{dialer::Dialer, snapshot::Protocol};

/// The socket's task. Connections that it has accepted outlive it.
#[derive(Debug)]
pub(super) struct Listener {
    target: watch::Sender<Arc<Target>>,
    task: JoinHandle<()>,
}

impl Listener {
    /// Binds the socket, and starts to serve it.
    pub(super) fn new(
        listen: ListenAddress,
        target: Target,
        (budget, address, dialer): (Budget, Option<Arc<IpAddr>>, Dialer),
        connections: &Connections,
    ) -> io::Result<Self> {
        let (target, targets) = watch::channel(Arc::new(target));
        let backend = Backend::new(targets, budget, address, dialer);
        let task = match listen.protocol {
            Protocol::Tcp => componentbase::spawn(tcp::serve(
                tcp::listen(listen.address)?,
                backend,
                connections.clone(),
            )),
            Protocol::Udp => {
                componentbase::spawn(udp::serve(udp::listen(listen.address)?, backend))
            }
        };
        Ok(Self { target, task })
    }

    /// Sets the endpoints of connections that are accepted from now on.
    pub(super) fn set_target(&self, target: Target) {
        self.target.send_if_modified(|current| {
            let is_new = **current != target;
            if is_new {
                *current = Arc::new(target);
            }
            is_new
        });
    }

    /// Closes the socket. After that the address can be bound again.
    pub(super) async fn close(mut self) {
        self.task.abort();
        // it was aborted, so it has no result
        let _ = (&mut self.task).await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}
