//! TCP to a server, straight or through an HTTP proxy (`CONNECT`, RFC 9110 §9.3.6).

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream, lookup_host},
    time::timeout,
};

use super::{Proxy, proxy::Way};
use crate::config::HostPort;

/// Largest head of a proxy's answer.
const HEAD: usize = 8 * 1024;
/// How long one address of a name may take before the next is tried. The system repeats the first packet after a second.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// What the system may hold back of what was written, bytes. More would go before a lease that is written later, and would
/// hide for longer that nobody takes anything.
const SEND_BUFFER: u32 = 64 * 1024;

/// Connects; the name is resolved by the proxy where there is one.
pub(crate) async fn connect(server: &HostPort, proxy: &Proxy) -> io::Result<TcpStream> {
    match proxy.to(&server.host, server.port) {
        None => straight(&server.to_string()).await,
        Some(way) => {
            let told =
                |error: io::Error| io::Error::new(error.kind(), format!("proxy {}: {error}", way.address));
            let stream = straight(&way.address).await.map_err(told)?;
            through(stream, way, &server.to_string()).await.map_err(told)
        }
    }
}

/// The first of its addresses that answers.
async fn straight(authority: &str) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in lookup_host(authority).await? {
        match timeout(CONNECT_TIMEOUT, one(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failed = error,
            Err(_) => failed = io::Error::new(io::ErrorKind::TimedOut, format!("no answer from {address}")),
        }
    }
    Err(failed)
}

async fn one(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_nodelay(true)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.connect(address).await
}

async fn through(mut stream: TcpStream, way: &Way, authority: &str) -> io::Result<TcpStream> {
    let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
    if let Some(authorization) = &way.authorization {
        request.push_str(&format!("Proxy-Authorization: {}\r\n", authorization.expose()));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    let head = head(&mut stream).await?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok());
    match status {
        Some(200..300) => Ok(stream),
        Some(_) => {
            let line = wire::text::printable(head.lines().next().unwrap_or_default());
            Err(io::Error::new(io::ErrorKind::ConnectionRefused, format!("it refused: {line}")))
        }
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "it does not speak HTTP")),
    }
}

/// The head of the answer. It is read byte by byte: what follows it belongs to the server behind.
async fn head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= HEAD {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the head of its answer is too large"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests;
