//! TCP: a listening socket, and its connections, which outlive it.

use std::{io, net::SocketAddr, time::Duration};

use nix::sys::socket::{
    setsockopt,
    sockopt::{IpFreebind, Ipv6V6Only},
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::debug;
use wire::relay::Protocol;

use super::{backend::Backend, budget::ConnectionPermit, copy};
use crate::edgemesh::{
    dialer::EndpointStream,
    metrics::MeshMetrics,
    sockets::{limit_buffers, reset_on_drop, set_nodelay_and_keepalive},
};

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;
/// How long dialling may take, for all endpoints together.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a failed accept, as when no files are left.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Tracks connections, and ends them on shutdown rather than with their listening socket.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    pub(super) tracker: TaskTracker,
    pub(super) shutdown: CancellationToken,
}

/// Binds a listening socket.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // connections of an earlier agent may still be closing
    socket.set_reuseaddr(true)?;
    if address.is_ipv6() {
        // a route delivers packets to an IPv6 address, but does not allow a socket to be bound to it
        setsockopt(&socket, IpFreebind, &true)?;
        setsockopt(&socket, Ipv6V6Only, &true)?;
    }
    limit_buffers(&socket)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts connections; never returns.
pub(super) async fn serve(listener: TcpListener, backend: Backend, connections: Connections) {
    loop {
        let (client, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                debug!(%error, "failed to accept a connection to a Service");
                sleep(ACCEPT_RETRY_INTERVAL).await;
                continue;
            }
        };
        let metrics = &backend.budget.metrics;
        let Some(permit) = backend
            .budget
            .admit_connection(peer.ip(), &backend.port_limit)
        else {
            MeshMetrics::add(&metrics.refused);
            reset_on_drop(&client);
            continue;
        };
        MeshMetrics::add(&metrics.accepted);
        let (backend, shutdown) = (backend.clone(), connections.shutdown.clone());
        connections
            .tracker
            .spawn(componentbase::in_span(async move {
                clock::select! {
                    // cancel-safe: on shutdown the connection ends
                    () = shutdown.cancelled() => {}
                    () = forward(client, peer, backend, permit) => {}
                }
            }));
    }
}

/// Forwards one connection until both ends have ended it.
async fn forward(
    mut client: TcpStream,
    peer: SocketAddr,
    backend: Backend,
    _permit: ConnectionPermit,
) {
    let Some(server) = dial(peer, &backend).await else {
        MeshMetrics::add(&backend.budget.metrics.unreached);
        reset_on_drop(&client);
        return;
    };
    // a connection may live for weeks: do not hold the socket's endpoints any longer than needed
    let _address = backend.address.clone();
    drop(backend);
    set_nodelay_and_keepalive(&client);
    // if one end breaks off, the other must not take that for a normal end
    match server {
        EndpointStream::Direct(server) => {
            set_nodelay_and_keepalive(&server);
            if copy::both_ways(&client, &server).await.is_err() {
                reset_on_drop(&client);
                reset_on_drop(&server);
            }
        }
        EndpointStream::Relayed(mut server) => {
            if copy::over_relay(&mut client, &mut server).await.is_err() {
                // the other node learns it from the missing close_notify of TLS
                reset_on_drop(&client);
            }
        }
    }
}

/// Connects to the first endpoint that can be reached.
async fn dial(peer: SocketAddr, backend: &Backend) -> Option<EndpointStream> {
    let client = peer.ip();
    let (endpoints, policy) = backend.choose(client);
    let target = backend.target.borrow().clone();
    let share = DIAL_TIMEOUT / u32::try_from(endpoints.len()).unwrap_or(1).max(1);
    for endpoint in endpoints {
        let request = || target.connect_request(&endpoint, Protocol::Tcp);
        match timeout(
            share,
            backend
                .dialer
                .dial(&target.destination(&endpoint), client, request),
        )
        .await
        {
            Ok(Ok(server)) => {
                backend.record_reached(policy, client, endpoint);
                return Some(server);
            }
            Ok(Err(error)) => {
                debug!(%endpoint, %error, "failed to connect to an endpoint of a Service");
                if error.is_full() {
                    // that one client has as many connections as it may must not put the endpoint last for all others
                    continue;
                }
            }
            Err(_) => {
                debug!(%endpoint, timeout = ?share, "connection to an endpoint of a Service timed out")
            }
        }
        backend.record_unreachable(endpoint);
    }
    None
}

#[cfg(test)]
mod tests;
