//! Nodes that come by QUIC (RFC 9000): who it is goes over a first stream, messages over a second one.
//!
//! Source: viaduct's QUIC lane, on today's QUIC; see [`wire::frame`].

use std::{net::SocketAddr, sync::Arc};

use limits::{ConnectionLimits, ConnectionSlot};
use quinn::{
    Endpoint, EndpointConfig, IdleTimeout, Incoming, Runtime, ServerConfig, TokioRuntime,
    TransportConfig, VarInt, crypto::rustls::QuicServerConfig,
};
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};
use wire::{
    Message, Operation, Route,
    frame::{self, Decoder},
    text::printable_short,
};

use super::{
    Replicas, Shared,
    accept::accept_node,
    link::Connected,
    muted_peers::{FilteredSocket, MutedPeers},
    transport,
};
use crate::{
    faults::{Certificate, wait_for_link},
    listeners::{LimitedEndpoint, Refusals, bind_udp, node_name, quic_certificate},
    pki::Trust,
    sessions::{RefusalReason, RequestSequence, SessionRequest, Transport},
};

/// As KubeEdge's: a connection that is silent for this time is dead.
const SILENCE: VarInt = VarInt::from_u32(30_000);
/// Streams of one node: the greeting and the messages.
const STREAMS: VarInt = VarInt::from_u32(2);
/// The largest greeting, bytes.
const GREETING: usize = 4 * 1024;
/// Bytes read at one time.
const PORTION: usize = 4 * 1024;

/// Why QUIC is not served.
#[derive(Debug, thiserror::Error)]
pub enum QuicBindError {
    /// The port is taken, or not allowed.
    #[error(
        "CloudHub cannot listen for QUIC on {address}; stop the program that uses the UDP port, or choose another with --quic-port (0 \
         picks a free one)"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// The keys are not good for QUIC.
    #[error("CloudHub's keys cannot be used for QUIC")]
    Tls(#[from] quinn::crypto::rustls::NoInitialCipherSuite),
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A bound endpoint.
pub(super) struct QuicHub {
    listener: LimitedEndpoint,
    address: SocketAddr,
    trust: Trust,
    mute: MutedPeers,
}

impl QuicHub {
    pub(super) fn bind(
        address: SocketAddr,
        trust: Trust,
        limits: ConnectionLimits,
        refusals: Refusals,
    ) -> Result<Self, QuicBindError> {
        let config = server_config(&trust.hub())?;
        let failed = |source| QuicBindError::Listen { address, source };
        let runtime = Arc::new(TokioRuntime);
        let socket = bind_udp(address).and_then(|socket| runtime.wrap_udp_socket(socket));
        let mute = MutedPeers::default();
        let socket = FilteredSocket {
            inner: socket.map_err(failed)?,
            mute: mute.clone(),
        };
        let endpoint = Endpoint::new_with_abstract_socket(
            EndpointConfig::default(),
            Some(config),
            Arc::new(socket),
            runtime,
        );
        let endpoint = endpoint.map_err(failed)?;
        let address = endpoint.local_addr().map_err(failed)?;
        let listener = LimitedEndpoint::new("CloudHub", endpoint, limits, refusals);
        Ok(Self {
            listener,
            address,
            trust,
            mute,
        })
    }

    pub(super) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`; sessions run in `tasks`.
    pub(super) async fn run(
        mut self,
        replicas: Replicas,
        tasks: TaskTracker,
        shutdown: CancellationToken,
    ) {
        let mut shown = self.trust.certificate();
        loop {
            let accepted = clock::select! {
                // cancel-safe: both arms hold no data
                () = shutdown.cancelled() => break,
                // cancel-safe: a change that is not seen stays
                () = self.trust.changed() => {
                    shown = self.trust.certificate();
                    match server_config(&self.trust.hub()) {
                        Ok(config) => self.listener.endpoint.set_server_config(Some(config)),
                        Err(error) => warn!(
                            error = &error as &dyn std::error::Error,
                            "failed to update QUIC certificate; keeping the old one"
                        ),
                    }
                    continue;
                }
                accepted = self.listener.accept() => accepted,
            };
            let (Some((incoming, slot)), Some(shared)) = (accepted, replicas.next()) else {
                break;
            };
            let ends = (self.mute.clone(), slot);
            tasks.spawn(serve(incoming, shown, ends, shared, shutdown.clone()));
        }
        self.listener.endpoint.wait_idle().await;
    }
}

fn server_config(tls: &rustls::ServerConfig) -> Result<ServerConfig, QuicBindError> {
    let mut tls = tls.clone();
    tls.alpn_protocols = vec![frame::ALPN.to_vec()];
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(IdleTimeout::from(SILENCE)));
    transport
        .max_concurrent_bidi_streams(STREAMS)
        .max_concurrent_uni_streams(VarInt::from_u32(0));
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

async fn serve(
    incoming: Incoming,
    shown: Certificate,
    (mute, slot): (MutedPeers, ConnectionSlot),
    shared: Arc<Shared>,
    shutdown: CancellationToken,
) {
    let peer = incoming.remote_address();
    let welcomed = clock::select! {
        // cancel-safe: a half-made connection is simply closed
        () = shutdown.cancelled() => return,
        () = slot.wait_evicted() => return debug!(%peer, "QUIC connection without a session evicted: limit reached"),
        welcomed = timeout(shared.limits.handshake, Box::pin(welcome(incoming, &shared))) => welcomed,
    };
    match welcomed {
        Ok(Ok((node, (new_certificate, certificate), sequence, (incoming, outgoing)))) => {
            // it has a session from here on, of which there are so many at most
            let Ok(active) = slot.begin(false) else {
                return;
            };
            let mute = Some((mute, peer));
            let session_request = SessionRequest {
                node,
                sequence,
                address: peer,
                transport: Transport::Quic,
                replica: shared.number,
                instance: None,
                new_certificate,
                certificate,
            };
            let connected = Connected {
                incoming,
                outgoing,
                mute,
            };
            let helpers = accept_node(session_request, connected, shown, &shared, &shutdown).await;
            drop((active, slot));
            if let Some(helpers) = helpers {
                helpers.finish().await;
            }
        }
        Ok(Err(error)) => {
            shared
                .sessions
                .metrics()
                .count_refused(RefusalReason::Connection);
            if let Some(times) = shared
                .refusals
                .count(peer.ip(), &*error, clock::Instant::now())
            {
                let error = printable_short(error);
                warn!(%peer, times, error, "QUIC connection rejected");
            }
        }
        Err(_) => debug!(%peer, "greeting of a QUIC connection timed out"),
    }
}

type Welcome = (
    String,
    (Option<Vec<u8>>, Option<Vec<u8>>),
    RequestSequence,
    (transport::Incoming, transport::Outgoing),
);

/// The node's name, what it begins anew with and what it shows, when it asked for its session, and its stream of messages.
async fn welcome(incoming: Incoming, shared: &Shared) -> Result<Welcome, Failure> {
    let connection = incoming.await?;
    let (mut answer, mut greeting) = connection.accept_bi().await?;
    let mut decoder = Decoder::new(GREETING);
    let hello = loop {
        if let Some((hello, _)) = decoder.take()? {
            break hello;
        }
        match greeting.read_chunk(PORTION, true).await? {
            Some(chunk) => decoder.push(&chunk.bytes),
            None => return Err("it ended before its greeting".into()),
        }
    };
    let certificate = quic_certificate(&connection);
    let named = match check_node_name(certificate.as_deref(), &hello) {
        Ok(node) => {
            let shown = certificate.as_deref().unwrap_or_default();
            shared.refusal(&node, shown).await.map_or(Ok(node), Err)
        }
        Err(why) => Err(why),
    };
    let node = match named {
        Ok(node) => node,
        Err(why) => {
            answer
                .write_all(&frame::encode(&reply(&hello, &why)))
                .await?;
            answer.finish()?;
            // the node closes when it has read why
            connection.closed().await;
            return Err(why.into());
        }
    };
    wait_for_link(&shared.faults, &node).await?;
    let new_certificate = shared
        .sessions
        .new_certificate(&node, certificate.as_deref());
    let sequence = shared.sessions.next_sequence();
    answer
        .write_all(&frame::encode(&reply(&hello, "ack")))
        .await?;
    let (send, mut receive) = connection.accept_bi().await?;
    let mut usage = [0; frame::MESSAGES.len()];
    receive.read_exact(&mut usage).await?;
    if usage != *frame::MESSAGES {
        return Err("its stream is not one of messages; this hub serves no other use".into());
    }
    info!(node, "node connected over QUIC");
    let incoming = transport::Incoming::Quic(receive, Decoder::new(shared.limits.max_message));
    let shown = certificate.map(|shown| shown.as_ref().to_owned());
    Ok((
        node,
        (new_certificate, shown),
        sequence,
        (incoming, transport::Outgoing::Quic(send, connection)),
    ))
}

/// A node is who its certificate says, and its greeting must say the same.
fn check_node_name(certificate: Option<&[u8]>, hello: &Message) -> Result<String, String> {
    let node = node_name(certificate)?;
    if hello.route.resource.as_str() != frame::HELLO {
        return Err("the first frame is no greeting".to_owned());
    }
    let claimed = hello
        .content
        .pointer("/Node_id/0")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if claimed != node {
        return Err(format!(
            "the greeting's Node_id says {claimed:?} and the certificate {node:?}; start the agent with the name in its certificate, or enrol it again"
        ));
    }
    Ok(node)
}

fn reply(hello: &Message, content: &str) -> Message {
    let route = Route {
        operation: Operation::Response,
        ..hello.route.clone()
    };
    Message::new(route, Value::from(content), hello.header.timestamp)
        .answering(&hello.header.msg_id)
}
