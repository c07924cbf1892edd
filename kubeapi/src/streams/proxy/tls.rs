//! TLS to pods, through their nodes' tunnels.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::client::TlsStream;

use crate::pod_tls;

/// The timeout of a TLS handshake, as in the API server's transport.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Performs a TLS handshake with a pod; returns the reason for a failure as text.
pub(super) async fn connect<T>(stream: T) -> Result<TlsStream<T>, String>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    // an address: no name is sent
    let name = ServerName::from(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let connecting = pod_tls::connector()?.connect(name, stream);
    let connected = timeout(HANDSHAKE_TIMEOUT, connecting).await;
    let connected = connected
        .map_err(|_| format!("no TLS handshake within {} s", HANDSHAKE_TIMEOUT.as_secs()))?;
    connected.map_err(|error| format!("TLS: {error}"))
}
