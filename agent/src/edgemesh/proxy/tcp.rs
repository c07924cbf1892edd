//! TCP: a listening socket, and its connections, which outlive it.

use std::{io, net::SocketAddr, time::Duration};

use nix::sys::socket::{
    setsockopt,
    sockopt::{IpFreebind, Ipv6V6Only, KeepAlive, TcpKeepCount, TcpKeepIdle, TcpKeepInterval},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes},
    net::{TcpListener, TcpSocket, TcpStream},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::debug;
use wire::relay::Protocol;

use super::{backend::Backend, budget::Seat, copy};
use crate::edgemesh::{dialer::Server, figures::Figures};

/// Connections that wait to be taken.
const BACKLOG: u32 = 1024;
/// Bytes that the kernel holds for each direction at each end of a connection: otherwise it may be megabytes, of the agent's memory.
const KERNEL_BUFFER: u32 = 128 * 1024;
/// How long all endpoints together may take until one is reached.
const DIAL: Duration = Duration::from_secs(10);
/// After no connection could be taken, as while there are no files left.
const RETRY: Duration = Duration::from_millis(100);
/// Bytes that are on their way over the relay in each direction of a connection.
const BUFFER: usize = 16 * 1024;
/// An end that is silent is asked whether it is still there: seconds until then, between two questions, and how often.
const KEEPALIVE: (u32, u32, u32) = (60, 15, 4);

/// What connections run under: they end with the room, not with their socket.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    pub(super) tracker: TaskTracker,
    pub(super) shutdown: CancellationToken,
}

/// Listens at this address.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // connections of an agent before this one may still be ending
    socket.set_reuseaddr(true)?;
    if address.is_ipv6() {
        // a route alone makes an address of IPv6 one to which a packet may come, and none to which a socket may be bound
        setsockopt(&socket, IpFreebind, &true)?;
        setsockopt(&socket, Ipv6V6Only, &true)?;
    }
    // what it accepts has them, too
    bound(&socket)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Takes connections; never ends.
pub(super) async fn serve(listener: TcpListener, backend: Backend, connections: Connections) {
    loop {
        let (client, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                debug!(%error, "no connection to a Service can be taken");
                sleep(RETRY).await;
                continue;
            }
        };
        let figures = &backend.budget.figures;
        let Some(seat) = backend.budget.connection(peer.ip(), &backend.own) else {
            Figures::add(&figures.refused);
            refuse(&client);
            continue;
        };
        Figures::add(&figures.accepted);
        let (backend, shutdown) = (backend.clone(), connections.shutdown.clone());
        connections.tracker.spawn(async move {
            tokio::select! {
                // cancel-safe, both: the room ends, and what it forwards with it
                () = shutdown.cancelled() => {}
                () = forward(client, peer, backend, seat) => {}
            }
        });
    }
}

/// Forwards one connection until both ends have ended it.
async fn forward(mut client: TcpStream, peer: SocketAddr, backend: Backend, _seat: Seat) {
    let Some(server) = dial(peer, &backend).await else {
        Figures::add(&backend.budget.figures.unreached);
        refuse(&client);
        return;
    };
    // the socket's target is not held any longer than it is needed: a connection may live for weeks
    let _address = backend.address.clone();
    drop(backend);
    prepare(&client);
    // where one end has broken off, the other must not take that for an end
    match server {
        Server::Direct(server) => {
            prepare(&server);
            if copy::both_ways(&client, &server).await.is_err() {
                refuse(&client);
                refuse(&server);
            }
        }
        Server::Relayed(mut server) => {
            if carry(&mut client, &mut server).await.is_err() {
                // TLS that ends without a goodbye tells the other node
                refuse(&client);
            }
        }
    }
}

async fn carry(client: &mut TcpStream, server: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
    copy_bidirectional_with_sizes(client, server, BUFFER, BUFFER).await.map(|_| ())
}

/// A connection to the first endpoint that can be reached.
async fn dial(peer: SocketAddr, backend: &Backend) -> Option<Server> {
    let client = peer.ip();
    let (endpoints, policy) = backend.choose(client);
    let target = backend.target.borrow().clone();
    let patience = DIAL / u32::try_from(endpoints.len()).unwrap_or(1).max(1);
    for endpoint in endpoints {
        let wanted = || target.wanted(&endpoint, Protocol::Tcp);
        match timeout(patience, backend.dialer.dial(&target.destination(&endpoint), wanted)).await {
            Ok(Ok(server)) => {
                backend.reached(policy, client, endpoint);
                return Some(server);
            }
            Ok(Err(error)) => debug!(%endpoint, %error, "an endpoint of a Service cannot be reached"),
            Err(_) => debug!(%endpoint, ?patience, "an endpoint of a Service does not answer"),
        }
        backend.missed(endpoint);
    }
    None
}

/// A connection to an endpoint.
pub(in crate::edgemesh) async fn connect(endpoint: SocketAddr) -> io::Result<TcpStream> {
    let socket = if endpoint.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    bound(&socket)?;
    socket.connect(endpoint).await
}

/// Bounds what waits in the kernel at one end of a connection.
fn bound(socket: &TcpSocket) -> io::Result<()> {
    socket.set_recv_buffer_size(KERNEL_BUFFER)?;
    socket.set_send_buffer_size(KERNEL_BUFFER)
}

/// Ends a connection by a reset, as if nobody had listened.
pub(in crate::edgemesh) fn refuse(stream: &TcpStream) {
    if let Err(error) = stream.set_zero_linger() {
        debug!(%error, "a connection ends as if by its other end");
    }
}

/// Small messages go out at once, and an end that has vanished is found out.
pub(in crate::edgemesh) fn prepare(stream: &TcpStream) {
    let (idle, interval, count) = KEEPALIVE;
    let prepared = || -> Result<(), io::Error> {
        stream.set_nodelay(true)?;
        setsockopt(stream, KeepAlive, &true)?;
        setsockopt(stream, TcpKeepIdle, &idle)?;
        setsockopt(stream, TcpKeepInterval, &interval)?;
        Ok(setsockopt(stream, TcpKeepCount, &count)?)
    };
    if let Err(error) = prepared() {
        debug!(%error, "a connection is forwarded without keepalive");
    }
}

#[cfg(test)]
#[path = "tcp/tests.rs"]
mod tests;
