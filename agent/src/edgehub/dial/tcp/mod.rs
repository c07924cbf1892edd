//! TCP connections to a server, directly or through an HTTP proxy (`CONNECT`, RFC 9110 §9.3.6).

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream, lookup_host},
    time::timeout,
};

use super::{Proxy, proxy::ProxyEndpoint};
use crate::config::HostPort;

/// The largest head of a proxy's answer, bytes.
const MAX_HEAD_BYTES: usize = 8 * 1024;
/// How long one address of a name may take before the next is tried. The system repeats the first packet after a second.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The send buffer of the system, bytes. A larger one would delay a lease that is written after other data, and hide for longer
/// that the other end does not read.
const SEND_BUFFER_BYTES: u32 = 64 * 1024;

/// Why the proxy does not connect to a server.
#[derive(Debug, thiserror::Error)]
#[error("proxy {proxy}: {error}")]
pub(crate) struct ProxyFailure {
    /// The address of the proxy.
    proxy: String,
    /// Its answer, or why there is none.
    error: io::Error,
}

impl ProxyFailure {
    /// Returns the failure of the proxy at this address.
    pub(crate) fn new(proxy: &str, error: io::Error) -> Self {
        Self {
            proxy: proxy.to_owned(),
            error,
        }
    }
}

/// Connects; if there is a proxy, it resolves the name.
pub(crate) async fn connect(server: &HostPort, proxy: &Proxy) -> io::Result<TcpStream> {
    match proxy.for_server(&server.host, server.port) {
        None => connect_directly(&server.to_string()).await,
        Some(endpoint) => {
            let failed = |error: io::Error| {
                let kind = error.kind();
                io::Error::new(kind, ProxyFailure::new(&endpoint.address, error))
            };
            let stream = connect_directly(&endpoint.address).await.map_err(failed)?;
            connect_through_proxy(stream, endpoint, &server.to_string())
                .await
                .map_err(failed)
        }
    }
}

/// Connects to the first address that answers.
async fn connect_directly(authority: &str) -> io::Result<TcpStream> {
    let mut failed = resolve_error(authority, "the name has no address");
    for address in resolve(authority).await? {
        match timeout(CONNECT_TIMEOUT, connect_to(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failed = error,
            Err(_) => {
                failed =
                    io::Error::new(io::ErrorKind::TimedOut, format!("no answer from {address}"))
            }
        }
    }
    Err(failed)
}

/// Resolves `host:port`. An error has the kind `NotFound`, which no error of a connection has.
pub(crate) async fn resolve(authority: &str) -> io::Result<impl Iterator<Item = SocketAddr>> {
    lookup_host(authority).await.map_err(|error| {
        let text = error.to_string();
        let why = text.strip_prefix("failed to lookup address information: ");
        resolve_error(authority, why.unwrap_or(&text))
    })
}

fn resolve_error(authority: &str, why: &str) -> io::Error {
    let host = authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host);
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("cannot resolve {host}: {why}"),
    )
}

async fn connect_to(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_nodelay(true)?;
    limits::set_keepalive(&socket)?;
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.connect(address).await
}

async fn connect_through_proxy(
    mut stream: TcpStream,
    endpoint: &ProxyEndpoint,
    authority: &str,
) -> io::Result<TcpStream> {
    let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
    if let Some(authorization) = &endpoint.authorization {
        request.push_str(&format!(
            "Proxy-Authorization: {}\r\n",
            authorization.expose()
        ));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    let head = read_response_head(&mut stream).await?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse::<u16>().ok());
    match status {
        Some(200..300) => Ok(stream),
        Some(_) => {
            let line = wire::text::printable(head.lines().next().unwrap_or_default());
            Err(io::Error::new(
                io::ErrorKind::ConnectionRefused,
                format!("it refused: {line}"),
            ))
        }
        None => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it does not speak HTTP",
        )),
    }
}

/// Reads the head of the answer byte by byte: what follows it belongs to the server behind the proxy.
async fn read_response_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= MAX_HEAD_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the head of its answer is too large",
            ));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests;
