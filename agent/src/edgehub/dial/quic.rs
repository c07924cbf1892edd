//! QUIC (RFC 9000) with the node's certificate: the node identifies itself on a first stream, and messages use a second one.
//!
//! Only `cloudsim` is supported: CloudCore's QUIC predates the standard. Proxies do not carry QUIC.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use quinn::{
    ClientConfig, Connection, Endpoint, IdleTimeout, RecvStream, SendStream, TransportConfig,
    VarInt, crypto::rustls::QuicClientConfig,
};
use serde_json::json;
use tokio::sync::Mutex;
use wire::{
    Message, Operation, Route,
    frame::{self, Decoder},
};

use super::{DialError, Target, tcp};
use crate::edgehub::{
    Config, enroll,
    traffic::{Direction, Traffic},
};
use crate::tls::CertificateFault;

/// How long a connection may be silent. QUIC counts from the first packet that was sent after the last one received, so that
/// together with the time until that packet it makes three seconds.
const IDLE_TIMEOUT_MILLIS: VarInt = VarInt::from_u32(2_000);
/// How often a silent connection is kept alive.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// The largest answer to the greeting, bytes.
const MAX_GREETING_BYTES: usize = 4 * 1024;
/// The bytes of one read.
const READ_BUFFER_BYTES: usize = 16 * 1024;

/// The stream of messages in both directions.
pub(in crate::edgehub) struct Stream {
    pub(in crate::edgehub) send: SendStream,
    pub(in crate::edgehub) receive: RecvStream,
    pub(in crate::edgehub) connection: CountedConnection,
}

/// A connection whose bytes are counted when it ends.
pub(in crate::edgehub) struct CountedConnection {
    connection: Connection,
    traffic: Traffic,
}

impl CountedConnection {
    /// Closes the connection.
    pub(in crate::edgehub) fn close(&self) {
        self.connection
            .close(VarInt::from_u32(0), b"the agent stops");
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let stats = self.connection.stats();
        for (direction, bytes) in [
            (Direction::Up, stats.udp_tx.bytes),
            (Direction::Down, stats.udp_rx.bytes),
        ] {
            self.traffic
                .raw(direction, usize::try_from(bytes).unwrap_or(usize::MAX));
        }
    }
}

/// Connects. Only one attempt at a time sends the greeting, as with WebSocket.
pub(super) async fn connect(
    config: &Config,
    target: &Target,
    tls: Arc<rustls::ClientConfig>,
    traffic: Traffic,
    upgrade_lock: &Mutex<()>,
) -> Result<Stream, DialError> {
    let failed = |error: BoxError| to_dial_error(target, error);
    let connection = CountedConnection {
        connection: handshake(target, &tls).await?,
        traffic,
    };
    let _lock = upgrade_lock.lock().await;
    let greeted = send_hello(config, &connection.connection)
        .await
        .map_err(failed)?;
    if greeted.content != "ack" {
        let said = wire::text::printable_bytes(&greeted.content_bytes(), MAX_REFUSAL_BYTES);
        return Err(DialError::Refused(target.to_string(), said));
    }
    let (mut send, receive) = connection
        .connection
        .open_bi()
        .await
        .map_err(|error| failed(error.into()))?;
    send.write_all(frame::MESSAGES)
        .await
        .map_err(|error| failed(error.into()))?;
    Ok(Stream {
        send,
        receive,
        connection,
    })
}

/// Checks that a server of the cloud with a certificate of this CA (DER) speaks QUIC. A CloudHub then ends the connection, since this
/// end shows no certificate.
///
/// # Errors
/// The server is not reached, or belongs to another cloud.
pub(crate) async fn check_quic(server: &Target, ca: &[u8]) -> Result<(), DialError> {
    let failed = |error: BoxError| to_dial_error(server, error);
    let verifier = enroll::verifier(ca).map_err(|error| failed(error.into()))?;
    let tls = rustls::ClientConfig::builder()
        .with_webpki_verifier(verifier)
        .with_no_client_auth();
    let connection = handshake(server, &tls).await?;
    connection.close(VarInt::from_u32(0), b"checked");
    Ok(())
}

/// Connects to the first address of the server.
async fn handshake(target: &Target, tls: &rustls::ClientConfig) -> Result<Connection, DialError> {
    let failed = |error: BoxError| to_dial_error(target, error);
    let unresolved = |error: io::Error| DialError::Connect(target.to_string(), error);
    let no_address = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let name = target.to_string();
    let mut addresses = tcp::resolve(&name).await.map_err(unresolved)?;
    let address = addresses.next().ok_or_else(|| unresolved(no_address()))?;
    let any: SocketAddr = if address.is_ipv4() {
        ([0; 4], 0).into()
    } else {
        ([0; 16], 0).into()
    };
    let endpoint = Endpoint::client(any).map_err(|error| failed(error.into()))?;
    let client = client(tls).map_err(failed)?;
    let connecting = endpoint
        .connect_with(client, address, &target.host)
        .map_err(|error| failed(error.into()))?;
    connecting.await.map_err(|error| failed(error.into()))
}

fn to_dial_error(server: &Target, error: BoxError) -> DialError {
    match CertificateFault::find(&*error) {
        Some(fault) => DialError::Certificate(server.to_string(), fault),
        None => DialError::Quic(server.to_string(), error),
    }
}

/// The most bytes of a refusal that are shown.
const MAX_REFUSAL_BYTES: usize = 512;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

fn client(tls: &rustls::ClientConfig) -> Result<ClientConfig, BoxError> {
    let mut tls = tls.clone();
    tls.alpn_protocols = vec![frame::ALPN.to_vec()];
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(IdleTimeout::from(IDLE_TIMEOUT_MILLIS)));
    transport.keep_alive_interval(Some(KEEP_ALIVE_INTERVAL));
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    client.transport_config(Arc::new(transport));
    Ok(client)
}

/// Identifies the node, and returns the cloud's answer.
async fn send_hello(config: &Config, connection: &Connection) -> Result<Message, BoxError> {
    let (mut send, mut receive) = connection.open_bi().await?;
    let route = Route {
        operation: Operation::from(frame::HELLO.to_owned()),
        resource: frame::HELLO.into(),
        ..Route::default()
    };
    let who = json!({"Node_id": [config.node_name], "Project_id": [config.project_id]});
    send.write_all(&frame::encode(&Message::new(
        route,
        who,
        clock::unix_millis(),
    )))
    .await?;
    let mut decoder = Decoder::new(MAX_GREETING_BYTES);
    loop {
        if let Some((answer, _)) = decoder.take()? {
            return Ok(answer);
        }
        match receive.read_chunk(READ_BUFFER_BYTES, true).await? {
            Some(chunk) => decoder.push(&chunk.bytes),
            None => return Err("the cloud closed the connection before its answer".into()),
        }
    }
}
