//! Dials the tunnel: TCP, TLS with the node's certificate, and the upgrade with the headers that CloudStream reads.

use std::{io, pin::pin};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{body::Incoming, client::conn::http1, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::TlsConnector;
use wire::{
    text::{printable_short, with_causes},
    tunnel::{self, window},
    websocket::accept_key,
};

use super::Config;
use crate::{
    edgehub::{Cause, CloudServer, connect_tcp, unreached_cure},
    tls::{
        CertificateFault,
        files::{self, TlsError},
        handshake_text,
    },
};

/// The largest head of the answer, and the most that is read of a refusal's body, bytes.
const MAX_ANSWER: usize = 16 * 1024;

/// Why the tunnel could not be established.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("the files that modules.edgeStream names cannot be used")]
    Files(#[from] TlsError),
    #[error("the node has no certificate yet")]
    NotEnrolled,
    #[error("cannot connect to {0}: {1}; {cure}", cure = unreached_cure(.1, .0, "modules.edgeStream.server"))]
    Connect(String, io::Error),
    #[error(
        "TLS with {0} failed: {why}; check that tlsTunnelCAFile is the cloud's CA and that the cloud has issued this node's certificate",
        why = handshake_text(.1)
    )]
    Tls(String, io::Error),
    #[error("no tunnel to {0}: {1}")]
    Certificate(String, CertificateFault),
    #[error(
        "{0} did not upgrade the connection: {why}; check that this is the address of the cloud's stream server, and that no proxy or \
         firewall closes connections",
        why = with_causes(&**.1)
    )]
    Upgrade(String, Box<dyn std::error::Error + Send + Sync>),
    #[error("{0} refused this node: {1} {2}")]
    Refused(String, StatusCode, String),
    #[error("no tunnel to {0} within {1:?}")]
    Timeout(String, std::time::Duration),
}

impl DialError {
    /// Reports whether the node has no certificate yet, which EdgeHub reports.
    pub(super) fn is_not_enrolled_yet(&self) -> bool {
        match self {
            Self::Files(error) => error.is_missing(),
            other => matches!(other, Self::NotEnrolled),
        }
    }

    /// Returns the cause for redialling.
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::Files(_) | Self::NotEnrolled | Self::Connect(..) | Self::Timeout(..) => {
                Cause::Network
            }
            // as EdgeHub does: a certificate that was revoked stays so
            Self::Refused(_, StatusCode::FORBIDDEN, _) => Cause::Refused,
            Self::Tls(..) | Self::Certificate(..) | Self::Upgrade(..) | Self::Refused(..) => {
                Cause::Cloud
            }
        }
    }
}

/// A new tunnel, and the cloud's window for each stream, if it has one.
pub(super) type NewTunnel = (TokioIo<Upgraded>, Option<usize>);

/// Dials the cloud.
pub(super) async fn connect(config: &Config) -> Result<NewTunnel, DialError> {
    let late = || DialError::Timeout(config.server.to_string(), config.handshake_timeout);
    timeout(config.handshake_timeout, connect_now(config))
        .await
        .map_err(|_| late())?
}

async fn connect_now(config: &Config) -> Result<NewTunnel, DialError> {
    let address = config.server.to_string();
    let connect_failed = |error| DialError::Connect(address.clone(), error);
    let name = ServerName::try_from(config.server.host.clone())
        .map_err(|error| connect_failed(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    let ip = config.address.detect();
    let ip = ip.map(|ip| ip.to_string()).unwrap_or_default();
    let tls_failed = |error: io::Error| match CertificateFault::find(&error) {
        Some(fault) => DialError::Certificate(address.clone(), fault),
        None => DialError::Tls(address.clone(), error),
    };
    if let Some(link) = &config.in_process {
        let connected = link.connect(CloudServer::Tunnel, &name).await;
        let stream = connected.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DialError::NotEnrolled,
            io::ErrorKind::ConnectionRefused => connect_failed(error),
            _ => tls_failed(error),
        })?;
        return upgrade(stream, &address, &config.node_name, &ip).await;
    }
    let files = config.tls.clone();
    // read before each dial: EdgeHub creates and renews the files
    let client = componentbase::spawn_blocking(move || files::client_config(&files)).await;
    let client = client.map_err(|error| connect_failed(io::Error::other(error)))??;
    let stream = connect_tcp(&config.server, &config.proxy)
        .await
        .map_err(connect_failed)?;
    let stream = TlsConnector::from(client).connect(name, stream).await;
    upgrade(
        stream.map_err(tls_failed)?,
        &address,
        &config.node_name,
        &ip,
    )
    .await
}

/// Upgrades a connection to the WebSocket of a tunnel.
pub(super) async fn upgrade<T>(
    stream: T,
    address: &str,
    node: &str,
    ip: &str,
) -> Result<NewTunnel, DialError>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    // with TLS 1.3 the server verifies this node's certificate after the handshake has ended here
    let failed =
        |error: Box<dyn std::error::Error + Send + Sync>| match CertificateFault::find(&*error) {
            Some(fault) => DialError::Certificate(address.to_owned(), fault),
            None => DialError::Upgrade(address.to_owned(), error),
        };
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MAX_ANSWER);
    let (mut sender, connection) = builder
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failed(error.into()))?;
    let key = STANDARD.encode(clock::rng().random::<[u8; 16]>());
    let request = request(address, node, ip, &key).map_err(|error| failed(error.into()))?;
    let exchange = async {
        let response = sender
            .send_request(request)
            .await
            .map_err(|error| failed(error.into()))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let status = response.status();
            return Err(DialError::Refused(
                address.to_owned(),
                status,
                first_line(response).await,
            ));
        }
        let accepted = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
        if accepted.is_none_or(|accepted| accepted.as_bytes() != accept_key(&key).as_bytes()) {
            return Err(failed("it does not speak WebSocket".into()));
        }
        let window = window::parse_window(
            response
                .headers()
                .get(window::HEADER)
                .map(HeaderValue::as_bytes),
        );
        let upgraded = hyper::upgrade::on(response)
            .await
            .map_err(|error| failed(error.into()))?;
        Ok((TokioIo::new(upgraded), window))
    };
    let (mut exchange, mut connection) = (pin!(exchange), pin!(connection.with_upgrades()));
    let mut runs = true;
    loop {
        clock::select! {
            // both are polled until the first has its result
            dialled = &mut exchange => return dialled,
            ended = &mut connection, if runs => {
                runs = false;
                ended.map_err(|error| failed(error.into()))?;
            }
        }
    }
}

fn request(
    address: &str,
    node: &str,
    ip: &str,
    key: &str,
) -> Result<Request<Empty<Bytes>>, http::Error> {
    Request::builder()
        .uri(tunnel::PATH)
        .header(header::HOST, address)
        .header(header::CONNECTION, HeaderValue::from_static("Upgrade"))
        .header(header::UPGRADE, HeaderValue::from_static("websocket"))
        .header(
            header::SEC_WEBSOCKET_VERSION,
            HeaderValue::from_static("13"),
        )
        .header(header::SEC_WEBSOCKET_KEY, key)
        .header(tunnel::NODE_HEADER, node)
        .header(tunnel::ADDRESS_HEADER, ip)
        .header(window::HEADER, window::WINDOW)
        .body(Empty::new())
}

/// Returns the first line of a refusal's body, of which at most [`MAX_ANSWER`] bytes are read.
async fn first_line(response: Response<Incoming>) -> String {
    let body = Limited::new(response.into_body(), MAX_ANSWER)
        .collect()
        .await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    printable_short(text.lines().next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_that_is_refused_asks_less_often() {
        let refused =
            |status| DialError::Refused("cloud".to_owned(), status, String::new()).cause();
        assert_eq!(refused(StatusCode::FORBIDDEN), Cause::Refused);
        // of a cloud with too many connections, or that restarts
        for status in [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::SERVICE_UNAVAILABLE,
        ] {
            assert_eq!(refused(status), Cause::Cloud, "{status}");
        }
    }
}
