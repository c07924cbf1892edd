//! QUIC (RFC 9000) with the node's certificate: who connects goes over a first stream, messages over a second one.
//!
//! Only `cloudsim` is at the other end: CloudCore's QUIC is of before the standard. Proxies do not carry it.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use quinn::{
    ClientConfig, Connection, Endpoint, IdleTimeout, RecvStream, SendStream, TransportConfig, VarInt,
    crypto::rustls::QuicClientConfig,
};
use serde_json::json;
use tokio::{net::lookup_host, sync::Mutex};
use wire::{
    Message, Operation, Route,
    frame::{self, Decoder},
};

use super::{DialError, Target};
use crate::edgehub::{
    Config,
    traffic::{Direction, Traffic},
};
use crate::rt::unix_millis;

/// A connection on which nothing was heard for so long is dead. QUIC counts from the first packet that was sent after the last
/// one that came, so that together with the time until that packet it makes three seconds.
const IDLE_TIMEOUT_MILLIS: VarInt = VarInt::from_u32(2_000);
/// A connection on which nothing is said is kept alive so often.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// The answer to the greeting.
const MAX_GREETING_BYTES: usize = 4 * 1024;
/// Bytes read at one time.
const READ_BYTES: usize = 16 * 1024;

/// The stream of messages, both ways.
pub(in crate::edgehub) struct Stream {
    pub(in crate::edgehub) send: SendStream,
    pub(in crate::edgehub) receive: RecvStream,
    pub(in crate::edgehub) connection: Counted,
}

/// A connection whose bytes are counted when it ends.
pub(in crate::edgehub) struct Counted {
    connection: Connection,
    traffic: Traffic,
}

impl Counted {
    /// Says goodbye.
    pub(in crate::edgehub) fn close(&self) {
        self.connection.close(VarInt::from_u32(0), b"the agent stops");
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let stats = self.connection.stats();
        for (direction, bytes) in [(Direction::Up, stats.udp_tx.bytes), (Direction::Down, stats.udp_rx.bytes)]
        {
            self.traffic.raw(direction, usize::try_from(bytes).unwrap_or(usize::MAX));
        }
    }
}

/// Connects. The greeting is made by one attempt at a time, as with WebSocket.
pub(super) async fn connect(
    config: &Config,
    target: &Target,
    tls: Arc<rustls::ClientConfig>,
    traffic: Traffic,
    turn: &Mutex<()>,
) -> Result<Stream, DialError> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| DialError::Quic(target.to_string(), error);
    let addresses = lookup_host(target.to_string()).await.map_err(|error| failed(error.into()))?;
    let address = addresses.into_iter().next().ok_or_else(|| failed("the name has no address".into()))?;
    let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
    let endpoint = Endpoint::client(any).map_err(|error| failed(error.into()))?;
    let client = client(&tls).map_err(failed)?;
    let connecting =
        endpoint.connect_with(client, address, &target.host).map_err(|error| failed(error.into()))?;
    let connection = Counted { connection: connecting.await.map_err(|error| failed(error.into()))?, traffic };
    let _turn = turn.lock().await;
    let greeted = greet(config, &connection.connection).await.map_err(failed)?;
    if greeted.content != "ack" {
        let said = wire::text::printable_bytes(&greeted.content_bytes(), MAX_REFUSAL);
        return Err(DialError::Refused(target.to_string(), said));
    }
    let (mut send, receive) = connection.connection.open_bi().await.map_err(|error| failed(error.into()))?;
    send.write_all(frame::MESSAGES).await.map_err(|error| failed(error.into()))?;
    Ok(Stream { send, receive, connection })
}

/// Bytes of a refusal that are told.
const MAX_REFUSAL: usize = 512;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn client(tls: &rustls::ClientConfig) -> Result<ClientConfig, Failure> {
    let mut tls = tls.clone();
    tls.alpn_protocols = vec![frame::ALPN.to_vec()];
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(IdleTimeout::from(IDLE_TIMEOUT_MILLIS)));
    transport.keep_alive_interval(Some(KEEP_ALIVE));
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    client.transport_config(Arc::new(transport));
    Ok(client)
}

/// Says who connects; the cloud's answer.
async fn greet(config: &Config, connection: &Connection) -> Result<Message, Failure> {
    let (mut send, mut receive) = connection.open_bi().await?;
    let route = Route {
        operation: Operation::from(frame::HELLO.to_owned()),
        resource: frame::HELLO.into(),
        ..Route::default()
    };
    let who = json!({"Node_id": [config.node_name], "Project_id": [config.project_id]});
    send.write_all(&frame::encode(&Message::new(route, who, unix_millis()))).await?;
    let mut decoder = Decoder::new(MAX_GREETING_BYTES);
    loop {
        if let Some((answer, _)) = decoder.take()? {
            return Ok(answer);
        }
        match receive.read_chunk(READ_BYTES, true).await? {
            Some(chunk) => decoder.push(&chunk.bytes),
            None => return Err("the cloud closed the connection before its answer".into()),
        }
    }
}
