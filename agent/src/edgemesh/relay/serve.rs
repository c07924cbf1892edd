//! A stream that another node has opened to this one over the cloud.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{copy_bidirectional_with_sizes, join},
    net::{TcpStream, UdpSocket},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::debug;
use wire::relay::{Answer, Open, Protocol, Wanted};

use super::{
    Counted, Raw, Snapshots, ToldError,
    allowed::{NotAllowed, allowed},
    datagrams, hear,
    keys::{Keys, NoKeys, node_of},
    tell,
};
use crate::edgemesh::figures::Figures;
use crate::edgemesh::proxy::connect;

/// How long the other node may take for its greeting, TLS and what it wants.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long the endpoint may take.
const DIAL: Duration = Duration::from_secs(3);
/// Bytes that are on their way in each direction of a connection.
const BUFFER: usize = 16 * 1024;

/// What streams are served with; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Serving {
    pub(super) node: Arc<str>,
    pub(super) keys: Keys,
    pub(super) snapshots: Snapshots,
    pub(super) figures: Arc<Figures>,
}

/// Why a stream was not served.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotServed {
    #[error(transparent)]
    Told(#[from] ToldError),
    #[error(transparent)]
    Keys(#[from] NoKeys),
    #[error("no TLS with the other node: {0}")]
    Tls(std::io::Error),
    #[error("the relay says that it is node {said}, and its certificate that it is {shown:?}")]
    OtherNode { said: String, shown: Option<String> },
    #[error("node {0} wants an endpoint that it may not have: {1}")]
    NotAllowed(String, NotAllowed),
    #[error("an endpoint is not reached: {0}")]
    Endpoint(String),
    #[error("it took too long")]
    Timeout,
}

impl Serving {
    /// Serves a stream until it ends.
    pub(super) async fn serve(&self, (send, receive): (quinn::SendStream, quinn::RecvStream)) {
        let raw = Counted::new(join(receive, send), self.figures.clone());
        if let Err(error) = self.serve_now(raw).await {
            Figures::add(&self.figures.relay_refused);
            debug!(%error, "a connection over the relay was not served");
        }
    }

    async fn serve_now(&self, raw: Raw) -> Result<(), NotServed> {
        let (mut stream, from, wanted) =
            timeout(HANDSHAKE, self.greet(raw)).await.map_err(|_| NotServed::Timeout)??;
        let allowed = allowed(&self.snapshots.borrow(), &self.node, &wanted);
        let at = match allowed {
            Ok(at) => at,
            Err(why) => {
                say(&mut stream, Answer::refused(why.to_string())).await;
                return Err(NotServed::NotAllowed(from, why));
            }
        };
        debug!(node = from, endpoint = %at, "a connection over the relay");
        match wanted.protocol {
            Protocol::Tcp => {
                let dialled = timeout(DIAL, connect(at)).await;
                let server = reached(&mut stream, dialled).await?;
                Figures::add(&self.figures.relay_served);
                carry(stream, server).await;
            }
            Protocol::Udp => {
                let dialled = timeout(DIAL, connected(at)).await;
                let socket = reached(&mut stream, dialled).await?;
                Figures::add(&self.figures.relay_served);
                datagrams::carry(stream, &socket).await;
            }
        }
        Ok(())
    }

    /// Who it is, by both the relay and its certificate, and what it wants.
    async fn greet(&self, mut raw: Raw) -> Result<(TlsStream<Raw>, String, Wanted), NotServed> {
        let Open { node: said } = hear(&mut raw).await?;
        tell(&mut raw, &Answer::default()).await?;
        let config = Arc::new(self.keys.for_nodes().await?);
        let mut stream = TlsAcceptor::from(config).accept(raw).await.map_err(NotServed::Tls)?;
        let shown = node_of(stream.get_ref().1.peer_certificates());
        if shown.as_deref() != Some(said.as_str()) {
            return Err(NotServed::OtherNode {
                said: wire::text::printable(&wire::text::short(&said)),
                shown,
            });
        }
        let wanted = hear(&mut stream).await?;
        Ok((stream, said, wanted))
    }
}

async fn connected(at: std::net::SocketAddr) -> std::io::Result<UdpSocket> {
    crate::edgemesh::proxy::connect_datagrams(at).await
}

/// Tells the other node whether its endpoint was reached.
async fn reached<T>(
    stream: &mut TlsStream<Raw>,
    dialled: Result<std::io::Result<T>, tokio::time::error::Elapsed>,
) -> Result<T, NotServed> {
    let why = match dialled {
        Ok(Ok(reached)) => {
            tell(stream, &Answer::default()).await?;
            return Ok(reached);
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {DIAL:?}"),
    };
    say(stream, Answer::refused(&why)).await;
    Err(NotServed::Endpoint(why))
}

/// The last that is said.
async fn say(stream: &mut TlsStream<Raw>, answer: Answer) {
    // whoever does not listen needs no answer
    let _ = timeout(DIAL, async {
        tell(stream, &answer).await?;
        Ok::<_, ToldError>(tokio::io::AsyncWriteExt::shutdown(stream).await?)
    })
    .await;
}

/// Bytes both ways, until both ends have ended.
async fn carry(mut stream: TlsStream<Raw>, mut server: TcpStream) {
    crate::edgemesh::proxy::prepare(&server);
    if copy_bidirectional_with_sizes(&mut stream, &mut server, BUFFER, BUFFER).await.is_err() {
        // one end has broken off, and the other must not take that for an end: TLS without a goodbye says so to the other node
        crate::edgemesh::proxy::refuse(&server);
    }
}
