//! A stream that another node has opened to this one over the cloud.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{copy_bidirectional_with_sizes, join},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::debug;
use wire::{
    relay::{Answer, ConnectRequest, Open, Protocol},
    text::printable_short,
};

use super::{
    Counted, QuicStream,
    allowed::{NotAllowed, allowed_address},
    certificates::{CertificateError, Certificates, node_of},
    datagrams,
    message::{MessageError, read, write},
};
use crate::edgemesh::{
    metrics::MeshMetrics,
    snapshot::Snapshots,
    sockets::{connect_tcp, connect_udp, reset_on_drop, set_nodelay_and_keepalive},
};

/// How long the other node may take for its first message, TLS and its request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long connecting to the endpoint may take, and telling the other node why it was not reached.
const DIAL_TIMEOUT: Duration = Duration::from_secs(3);
/// The buffer of each direction of a connection, bytes.
const BUFFER_SIZE: usize = 16 * 1024;

/// Serves streams of other nodes; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct StreamServer {
    pub(super) node: Arc<str>,
    pub(super) certificates: Certificates,
    pub(super) snapshots: Snapshots,
    pub(super) metrics: Arc<MeshMetrics>,
}

/// Why a stream was not served.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotServed {
    #[error(transparent)]
    Message(#[from] MessageError),
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    #[error("TLS with the other node failed: {0}")]
    Tls(std::io::Error),
    #[error("the relay names node {said}, but the certificate is for {}", .shown.as_deref().unwrap_or("no node"))]
    OtherNode { said: String, shown: Option<String> },
    #[error("node {0} is not allowed to reach the endpoint: {1}")]
    NotAllowed(String, NotAllowed),
    #[error("cannot reach the endpoint: {0}")]
    Endpoint(String),
    #[error("timed out")]
    Timeout,
}

impl StreamServer {
    /// Serves a stream until it ends, or the other node does not read it any more.
    pub(super) async fn serve(&self, (send, receive): (quinn::SendStream, quinn::RecvStream)) {
        let stopped = send.stopped();
        let given_up = async {
            if let Ok(None) = stopped.await {
                // this node has ended its direction, and the other node has read it to the end; the other direction may go on
                std::future::pending::<()>().await;
            }
        };
        let quic = Counted::new(join(receive, send), self.metrics.clone());
        let served = clock::select! {
            // cancel-safe: the connection to the endpoint is reset when it is dropped
            served = self.serve_quic(quic) => served,
            () = given_up => return,
        };
        if let Err(error) = served {
            MeshMetrics::add(&self.metrics.relay_refused);
            debug!(%error, "failed to serve a connection through the relay");
        }
    }

    async fn serve_quic(&self, quic: QuicStream) -> Result<(), NotServed> {
        let (mut stream, from, request) = timeout(HANDSHAKE_TIMEOUT, self.handshake(quic))
            .await
            .map_err(|_| NotServed::Timeout)??;
        let allowed = allowed_address(&self.snapshots.borrow(), &self.node, &request);
        let at = match allowed {
            Ok(at) => at,
            Err(why) => {
                refuse(&mut stream, Answer::refused(why.to_string())).await;
                return Err(NotServed::NotAllowed(from, why));
            }
        };
        debug!(node = from, endpoint = %at, "connection through the relay accepted");
        match request.protocol {
            Protocol::Tcp => {
                let dialled = timeout(DIAL_TIMEOUT, connect_tcp(at)).await;
                let server = answer_dialled(&mut stream, dialled).await?;
                MeshMetrics::add(&self.metrics.relay_served);
                copy_both_ways(stream, server).await;
            }
            Protocol::Udp => {
                let dialled = timeout(DIAL_TIMEOUT, connect_udp(at)).await;
                let socket = answer_dialled(&mut stream, dialled).await?;
                MeshMetrics::add(&self.metrics.relay_served);
                datagrams::copy_both_ways(stream, &socket).await;
            }
        }
        Ok(())
    }

    /// Finds out which node it is, by both the relay and its certificate, and what it asks for.
    async fn handshake(
        &self,
        mut quic: QuicStream,
    ) -> Result<(TlsStream<QuicStream>, String, ConnectRequest), NotServed> {
        let Open { node: said } = read(&mut quic).await?;
        write(&mut quic, &Answer::default()).await?;
        let config = Arc::new(self.certificates.for_nodes().await?);
        let mut stream = TlsAcceptor::from(config)
            .accept(quic)
            .await
            .map_err(NotServed::Tls)?;
        let shown = node_of(stream.get_ref().1.peer_certificates());
        if shown.as_deref() != Some(said.as_str()) {
            return Err(NotServed::OtherNode {
                said: printable_short(said),
                shown,
            });
        }
        let request = read(&mut stream).await?;
        Ok((stream, said, request))
    }
}

/// Tells the other node whether its endpoint was reached.
async fn answer_dialled<T>(
    stream: &mut TlsStream<QuicStream>,
    dialled: Result<std::io::Result<T>, tokio::time::error::Elapsed>,
) -> Result<T, NotServed> {
    let why = match dialled {
        Ok(Ok(reached)) => {
            write(stream, &Answer::default()).await?;
            return Ok(reached);
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {DIAL_TIMEOUT:?}"),
    };
    refuse(stream, Answer::refused(&why)).await;
    Err(NotServed::Endpoint(why))
}

/// Sends the last answer, and closes the stream.
async fn refuse(stream: &mut TlsStream<QuicStream>, answer: Answer) {
    // a node that is gone needs no answer
    let _ = timeout(DIAL_TIMEOUT, async {
        write(stream, &answer).await?;
        Ok::<_, MessageError>(tokio::io::AsyncWriteExt::shutdown(stream).await?)
    })
    .await;
}

/// Copies bytes in both directions until both ends have ended.
async fn copy_both_ways(mut stream: TlsStream<QuicStream>, server: TcpStream) {
    set_nodelay_and_keepalive(&server);
    let mut server = EndpointSocket {
        socket: server,
        has_ended: false,
    };
    // if one end breaks off, the other must not take that for a normal end; the other node learns it from the missing close_notify of TLS
    let copied =
        copy_bidirectional_with_sizes(&mut stream, &mut server.socket, BUFFER_SIZE, BUFFER_SIZE)
            .await;
    server.has_ended = copied.is_ok();
}

/// The connection to an endpoint, which is reset if it is dropped before both ends have ended.
struct EndpointSocket {
    socket: TcpStream,
    has_ended: bool,
}

impl Drop for EndpointSocket {
    fn drop(&mut self) {
        if !self.has_ended {
            reset_on_drop(&self.socket);
        }
    }
}
