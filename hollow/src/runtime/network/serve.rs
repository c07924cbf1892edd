//! Serves one connection to a simulated server: HTTP/1, HTTP/2 and gRPC, over TLS if the client begins with it.

use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use futures::stream;
use http::{Request, Response};
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rustls::ServerConfig;
use rustls_pki_types::PrivateKeyDer;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader, DuplexStream};
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::{
    super::behaviour::Behaviour,
    answer::{self, Answer},
};

/// The first byte of a connection over TLS.
const HANDSHAKE: u8 = 22;
/// The most bytes that are read of a request's body.
const MAX_BODY: usize = 4096;

/// Answers requests of one connection until it ends.
pub(super) async fn serve(stream: DuplexStream, behaviour: Arc<Behaviour>, age: Duration) {
    let mut stream = BufReader::new(stream);
    let is_tls = match stream.fill_buf().await {
        Ok([first, ..]) => *first == HANDSHAKE,
        // The client only connected, as a TCP probe does.
        Ok([]) | Err(_) => return,
    };
    if !is_tls {
        return answer_all(stream, behaviour, age).await;
    }
    let Some(config) = tls() else { return };
    match TlsAcceptor::from(config).accept(stream).await {
        Ok(stream) => answer_all(stream, behaviour, age).await,
        Err(error) => debug!(
            error = &error as &dyn std::error::Error,
            "client of a simulated server disconnected"
        ),
    }
}

async fn answer_all<S>(stream: S, behaviour: Arc<Behaviour>, age: Duration)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| one(request, Arc::clone(&behaviour), age));
    let served = auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        debug!(error = &*error, "client of a simulated server disconnected");
    }
}

type Body = StreamBody<stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>;

async fn one(
    request: Request<Incoming>,
    behaviour: Arc<Behaviour>,
    age: Duration,
) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let Answer {
        response,
        trailers,
        delay,
    } = if answer::is_grpc(&request) {
        let body = Limited::new(request.into_body(), MAX_BODY).collect().await;
        answer::grpc(
            &behaviour,
            &path,
            &body.map(|body| body.to_bytes()).unwrap_or_default(),
        )
    } else {
        answer::http(&behaviour, age, &path)
    };
    tokio::time::sleep(delay).await;
    Ok(response.map(|body| {
        let frames = std::iter::once(Frame::data(body)).chain(trailers.map(Frame::trailers));
        StreamBody::new(stream::iter(frames.map(Ok).collect::<Vec<_>>()))
    }))
}

/// Returns a TLS configuration with a certificate for no particular name: probes verify none.
fn tls() -> Option<Arc<ServerConfig>> {
    static CONFIG: OnceLock<Option<Arc<ServerConfig>>> = OnceLock::new();
    CONFIG.get_or_init(config).clone()
}

fn config() -> Option<Arc<ServerConfig>> {
    let own = rcgen::generate_simple_self_signed(["pod.sim".to_owned()]).ok()?;
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).ok()?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .ok()?;
    let certificate = own.cert.der().clone();
    builder
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .ok()
        .map(Arc::new)
}
