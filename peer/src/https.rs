//! One HTTPS request of a client.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Body;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{Failure, fail};

/// The largest answer, bytes.
pub(crate) const MAX_ANSWER: usize = 1024 * 1024;
/// How long one connection or request may take.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

/// Reads a body.
pub(crate) async fn collect<B>(body: Limited<B>) -> Result<Bytes, Failure>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match body.collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) => Err(Failure::Failed(error.to_string())),
    }
}

/// Connects to `address` (`host:port`).
///
/// # Errors
/// The server cannot be reached, or its certificate is not of the CA that `tls` trusts.
pub async fn connect(address: &str, tls: ClientConfig) -> Result<TlsStream<TcpStream>, Failure> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned())?;
    let connected = async {
        let tcp = TcpStream::connect(address).await?;
        TlsConnector::from(Arc::new(tls)).connect(name, tcp).await
    };
    match timeout(REQUEST_DEADLINE, connected).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => fail!("cannot connect to {address}: {error}"),
        Err(_) => fail!("cannot connect to {address}: no answer within {REQUEST_DEADLINE:?}"),
    }
}

/// Sends one request to `address` and returns the answer.
///
/// # Errors
/// There is no answer.
pub async fn request(
    address: &str,
    tls: ClientConfig,
    request: http::request::Builder,
    body: Vec<u8>,
) -> Result<Response<Bytes>, Failure> {
    let stream = connect(address, tls).await?;
    exchange(address, stream, request, body).await
}

/// Sends one request over a connection to `address`, and returns the answer.
///
/// # Errors
/// There is no answer.
pub async fn exchange(
    address: &str,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin,
    request: http::request::Builder,
    body: Vec<u8>,
) -> Result<Response<Bytes>, Failure> {
    let request: Request<Full<Bytes>> = request
        .header(http::header::HOST, address)
        .body(Full::new(Bytes::from(body)))?;
    let answered = async {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let asked = async {
            let answer = sender.send_request(request).await?;
            let (head, body) = answer.into_parts();
            let body = collect(Limited::new(body, MAX_ANSWER)).await?;
            Ok(Response::from_parts(head, body))
        };
        tokio::pin!(asked, connection);
        clock::select! {
            biased;
            answer = &mut asked => answer,
            ended = &mut connection => match ended {
                // the answer is then in the connection's buffers
                Ok(()) => asked.await,
                Err(error) => Err(error.into()),
            },
        }
    };
    match timeout(REQUEST_DEADLINE, answered).await {
        Ok(answer) => answer,
        Err(_) => Err(Failure::Failed(format!(
            "no answer of {address} within {REQUEST_DEADLINE:?}"
        ))),
    }
}
