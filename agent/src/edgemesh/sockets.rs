//! Sockets of connections that are forwarded: how endpoints are dialled, and what each end of a connection is set to.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use limits::set_keepalive;
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tracing::debug;

/// Bytes that the kernel buffers for each direction at each end of a connection. Without a limit it may buffer megabytes, which count as
/// the agent's memory.
const KERNEL_BUFFER: u32 = 128 * 1024;

/// Connects to an endpoint over TCP.
pub(super) async fn connect_tcp(endpoint: SocketAddr) -> io::Result<TcpStream> {
    let socket = if endpoint.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    limit_buffers(&socket)?;
    socket.connect(endpoint).await
}

/// Binds a UDP socket of its own for an endpoint, and connects it.
pub(super) async fn connect_udp(endpoint: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = if endpoint.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(endpoint).await?;
    // tokio learns that a socket is writable only by waiting for it once
    socket.writable().await?;
    Ok(socket)
}

/// Limits what the kernel buffers for a connection. Connections that a listening socket accepts inherit its limits.
pub(super) fn limit_buffers(socket: &TcpSocket) -> io::Result<()> {
    socket.set_recv_buffer_size(KERNEL_BUFFER)?;
    socket.set_send_buffer_size(KERNEL_BUFFER)
}

/// Makes the kernel end a connection by a reset when it is dropped, as if the port were closed.
pub(super) fn reset_on_drop(stream: &TcpStream) {
    if let Err(error) = stream.set_zero_linger() {
        debug!(%error, "failed to reset a connection; connection closed");
    }
}

/// Sends small messages at once, and has the kernel find out when the other end has vanished.
pub(super) fn set_nodelay_and_keepalive(stream: &TcpStream) {
    if let Err(error) = stream
        .set_nodelay(true)
        .and_then(|()| set_keepalive(stream))
    {
        debug!(%error, "failed to enable keepalive for a connection");
    }
}
