//! QUIC of either end: the edge identifies itself on a first stream, messages use a second one. The frames are those of KubeEdge, see
//! [`wire::frame`]; the QUIC is that of RFC 9000, which KubeEdge does not speak.

use std::{collections::BTreeMap, future::Future, net::SocketAddr, sync::Arc, time::Duration};

use quinn::{
    ClientConfig, Connection, Endpoint, IdleTimeout, Incoming, RecvStream, SendStream,
    ServerConfig, TransportConfig, VarInt,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use rustls_pki_types::CertificateDer;
use serde_json::{Map, Value};
use tokio::{
    io::{Join, join},
    net::lookup_host,
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::debug;
use wire::{
    Message, Operation, Route,
    frame::{self, Decoder},
};

use crate::{
    Failure, MAX_MESSAGE, ensure, fail,
    https::REQUEST_DEADLINE,
    now_ms,
    transport::{Outgoing, Socket},
};

/// As KubeEdge's: a connection that is silent for this time is dead.
const SILENCE: VarInt = VarInt::from_u32(30_000);
/// How often a silent connection is kept alive.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// The largest greeting, bytes.
const MAX_GREETING: usize = 4 * 1024;
/// The answer to the greeting of an edge that is accepted.
pub const ACCEPTED: &str = "ack";
/// How long a peer may take to read the rest before its connection is closed.
const CLOSE_DEADLINE: Duration = Duration::from_secs(2);
/// Connections to a server at a time.
const MAX_CONNECTIONS: usize = 1024;

/// The stream of messages of a session.
pub struct Stream {
    send: SendStream,
    receive: RecvStream,
    decoder: Decoder,
    connection: Connection,
}

impl Socket for Stream {
    async fn send(&mut self, outgoing: Outgoing) -> Result<(), String> {
        let parts = match outgoing {
            Outgoing::Message(message) | Outgoing::Binary(message) => {
                vec![frame::encode(&message)]
            }
            Outgoing::Parts(message) => {
                let mut first = frame::encode(&message);
                let second = first.split_off(first.len() / 2);
                vec![first, second]
            }
            Outgoing::Text(text) => vec![frame::enclose(text.as_bytes())],
            Outgoing::Close => {
                // what was sent before arrives
                if self.send.finish().is_ok() {
                    timeout(CLOSE_DEADLINE, self.send.stopped()).await.ok();
                }
                self.connection.close(VarInt::from_u32(0), b"closed");
                return Ok(());
            }
        };
        for part in parts {
            let sent = self.send.write_all(&part).await;
            sent.map_err(|error| error.to_string())?;
            // a part of its own, in a packet of its own
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Message, String> {
        let next = next(&mut self.receive, &mut self.decoder).await;
        next.map_err(|failure| failure.reason().to_owned())
    }
}

/// Returns the next message of a stream. Cancel-safe: incomplete data stays in the decoder.
async fn next(receive: &mut RecvStream, decoder: &mut Decoder) -> Result<Message, Failure> {
    loop {
        if let Some((message, _)) = decoder.take()? {
            return Ok(message);
        }
        match receive.read_chunk(MAX_GREETING, true).await? {
            Some(chunk) => decoder.push(&chunk.bytes),
            None => fail!("the peer closed its stream"),
        }
    }
}

/// The bytes of the stream of messages of a session.
pub type Bytes = Join<RecvStream, SendStream>;

/// Opens a session at `address` (`host:port`) with these headers.
///
/// # Errors
/// The cloud cannot be reached, or refuses.
pub async fn connect(
    address: &str,
    tls: rustls::ClientConfig,
    headers: &BTreeMap<&'static str, String>,
) -> Result<Stream, Failure> {
    let values: Map<String, Value> = headers
        .iter()
        .map(|(name, value)| (header_name(name), Value::from(vec![value.clone()])))
        .collect();
    let route = Route {
        operation: Operation::from(frame::HELLO.to_owned()),
        resource: frame::HELLO.into(),
        ..Route::default()
    };
    let hello = Message::new(route, Value::from(values), now_ms());
    let greeted = greet(address, tls, &hello).await?;
    let said = String::from_utf8_lossy(&greeted.answer.content_bytes()).into_owned();
    ensure!(
        greeted.is_accepted(),
        "the session over QUIC was refused: {said}"
    );
    let (receive, send) = greeted.open().await?.into_inner();
    Ok(Stream {
        send,
        receive,
        decoder: Decoder::new(MAX_MESSAGE),
        connection: greeted.connection,
    })
}

/// A connection to a cloud that has answered the greeting.
pub struct Greeted {
    /// The answer.
    pub answer: Message,
    connection: Connection,
}

impl Greeted {
    /// Reports whether the cloud has accepted the edge.
    pub fn is_accepted(&self) -> bool {
        self.answer.content_bytes() == ACCEPTED.as_bytes()
    }

    /// Opens the stream of messages.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn open(&self) -> Result<Bytes, Failure> {
        let (mut send, receive) = self.connection.open_bi().await?;
        send.write_all(frame::MESSAGES).await?;
        Ok(join(receive, send))
    }
}

/// Connects with a cloud at `address` (`host:port`), and sends this greeting of an edge.
///
/// # Errors
/// The cloud cannot be reached, or does not answer.
pub async fn greet(
    address: &str,
    tls: rustls::ClientConfig,
    hello: &Message,
) -> Result<Greeted, Failure> {
    match timeout(REQUEST_DEADLINE, dial(address, tls, hello)).await {
        Ok(greeted) => greeted,
        Err(_) => fail!("no session over QUIC with {address} within {REQUEST_DEADLINE:?}"),
    }
}

async fn dial(
    address: &str,
    mut tls: rustls::ClientConfig,
    hello: &Message,
) -> Result<Greeted, Failure> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let Some(server) = lookup_host(address).await?.next() else {
        fail!("{address} has no address");
    };
    let any: SocketAddr = if server.is_ipv4() {
        ([0; 4], 0).into()
    } else {
        ([0; 16], 0).into()
    };
    tls.alpn_protocols = vec![frame::ALPN.to_vec()];
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    client.transport_config(Arc::new(transport()));
    let connection = Endpoint::client(any)?.connect_with(client, server, host)?;
    let connection = match connection.await {
        Ok(connection) => connection,
        Err(error) => fail!("cannot connect to {address} over QUIC: {error}"),
    };
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(&frame::encode(hello)).await?;
    let answer = next(&mut receive, &mut Decoder::new(MAX_GREETING)).await?;
    Ok(Greeted { answer, connection })
}

/// Returns the name of a header as Go writes it: `Node_id`.
fn header_name(name: &str) -> String {
    let (first, rest) = name.split_at(name.len().min(1));
    first.to_ascii_uppercase() + rest
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(Some(IdleTimeout::from(SILENCE)))
        .keep_alive_interval(Some(KEEP_ALIVE_INTERVAL))
        .max_concurrent_uni_streams(VarInt::from_u32(0));
    transport
}

/// A connection of an edge that has sent its greeting.
pub struct Greeting {
    /// The greeting.
    pub hello: Message,
    /// The edge's address.
    pub address: SocketAddr,
    /// The edge's certificate, DER.
    pub certificate: Vec<u8>,
    answer: SendStream,
    connection: Connection,
}

/// A session that an edge has opened.
pub struct Opened {
    /// Its headers, in lower case.
    pub headers: BTreeMap<String, String>,
    /// The edge's certificate, DER.
    pub certificate: Vec<u8>,
    /// Its messages.
    pub stream: Stream,
}

impl Greeting {
    /// Returns the headers, in lower case.
    pub fn headers(&self) -> BTreeMap<String, String> {
        let headers = self.hello.content.as_object().into_iter().flatten();
        let pairs = headers.filter_map(|(name, values)| {
            let value = values.get(0)?.as_str()?.to_owned();
            Some((name.to_ascii_lowercase(), value))
        });
        pairs.collect()
    }

    /// Accepts the edge, and waits for its stream of messages.
    ///
    /// # Errors
    /// The connection has ended, or has another stream.
    pub async fn accept(mut self) -> Result<Opened, Failure> {
        self.reply(ACCEPTED).await?;
        let (receive, send) = self.messages().await?.into_inner();
        Ok(Opened {
            headers: self.headers(),
            certificate: self.certificate,
            stream: Stream {
                send,
                receive,
                decoder: Decoder::new(MAX_MESSAGE),
                connection: self.connection,
            },
        })
    }

    /// Answers the greeting with this text; [`ACCEPTED`] accepts the edge.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn reply(&mut self, text: &str) -> Result<(), Failure> {
        let route = Route {
            operation: Operation::Response,
            ..self.hello.route.clone()
        };
        let id = &self.hello.header.msg_id;
        let reply = Message::new(route, Value::from(text), now_ms()).answering(id);
        self.answer(&reply).await
    }

    /// Answers the greeting.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn answer(&mut self, answer: &Message) -> Result<(), Failure> {
        self.answer.write_all(&frame::encode(answer)).await?;
        Ok(())
    }

    /// Refuses the edge with this answer, and closes the connection once the edge has read it.
    pub async fn refuse(mut self, text: &str) {
        if self.reply(text).await.is_ok() && self.answer.finish().is_ok() {
            timeout(CLOSE_DEADLINE, self.answer.stopped()).await.ok();
        }
    }

    /// Waits for the edge's stream of messages.
    ///
    /// # Errors
    /// The connection has ended, or has another stream.
    pub async fn messages(&self) -> Result<Bytes, Failure> {
        let opened = async {
            let (send, mut receive) = self.connection.accept_bi().await?;
            let mut usage = [0; frame::MESSAGES.len()];
            receive.read_exact(&mut usage).await?;
            ensure!(
                usage == *frame::MESSAGES,
                "the second stream is not one of messages"
            );
            Ok(join(receive, send))
        };
        match timeout(REQUEST_DEADLINE, opened).await {
            Ok(opened) => opened,
            Err(_) => fail!("no stream of messages within {REQUEST_DEADLINE:?}"),
        }
    }
}

/// Waits until the peer has all bytes, then closes a session of either end.
pub async fn close(mut bytes: Bytes) {
    if bytes.writer_mut().finish().is_ok() {
        timeout(CLOSE_DEADLINE, bytes.writer_mut().stopped())
            .await
            .ok();
    }
}

/// A running server. It stops when this is dropped, and its connections end.
pub struct Server {
    address: SocketAddr,
    _stop: DropGuard,
}

impl Server {
    /// Starts a server; `serve` serves each edge that has sent its greeting, until its session ends.
    ///
    /// # Errors
    /// The port is in use, or the keys cannot be used.
    pub fn start<F>(
        address: SocketAddr,
        tls: &rustls::ServerConfig,
        serve: impl Fn(Greeting) -> F + Send + Sync + 'static,
    ) -> Result<Self, Failure>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut tls = tls.clone();
        tls.alpn_protocols = vec![frame::ALPN.to_vec()];
        let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
        config.transport_config(Arc::new(transport()));
        let endpoint = match Endpoint::server(config, address) {
            Ok(endpoint) => endpoint,
            Err(error) => fail!("cannot listen on UDP {address}: {error}"),
        };
        let address = endpoint.local_addr()?;
        let stop = CancellationToken::new();
        let (stopped, serve) = (stop.clone(), Arc::new(serve));
        let accepting = async move {
            let mut connections = JoinSet::new();
            while let Some(incoming) = endpoint.accept().await {
                while connections.try_join_next().is_some() {}
                if connections.len() >= MAX_CONNECTIONS {
                    incoming.refuse();
                    continue;
                }
                let serve = serve.clone();
                connections.spawn(async move {
                    match timeout(REQUEST_DEADLINE, accept(incoming)).await {
                        Ok(Ok(greeting)) => serve(greeting).await,
                        Ok(Err(failure)) => {
                            debug!(error = failure.reason(), "QUIC connection failed");
                        }
                        Err(_) => debug!("QUIC connection timed out"),
                    }
                });
            }
        };
        tokio::spawn(async move { stopped.run_until_cancelled(accepting).await });
        Ok(Self {
            address,
            _stop: stop.drop_guard(),
        })
    }

    /// Returns the address, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn accept(incoming: Incoming) -> Result<Greeting, Failure> {
    let connection = incoming.await?;
    let (answer, mut greeting) = connection.accept_bi().await?;
    let hello = next(&mut greeting, &mut Decoder::new(MAX_GREETING)).await?;
    let chain = connection.peer_identity();
    let chain = chain.and_then(|chain| chain.downcast::<Vec<CertificateDer<'static>>>().ok());
    let certificate = chain.and_then(|chain| chain.first().map(|first| first.to_vec()));
    Ok(Greeting {
        hello,
        address: connection.remote_address(),
        certificate: certificate.unwrap_or_default(),
        answer,
        connection,
    })
}
