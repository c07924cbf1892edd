//! Connects to an MQTT broker, and disconnects: CONNECT of MQTT 3.1.1, and the return code of CONNACK.

use std::{io, sync::Arc, time::Duration};

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::config::Secret;

/// How long a broker may take to answer.
const BROKER_TIMEOUT: Duration = Duration::from_secs(3);
/// The client id: another than that of the agent, whose session would end.
const CLIENT_ID: &str = "edge-agent-check";
/// The first two bytes of the answer, CONNACK.
const CONNACK: [u8; 2] = [0x20, 0x02];
/// DISCONNECT.
const DISCONNECT: [u8; 2] = [0xe0, 0x00];
/// The flags of CONNECT: a clean session, a user name, a password.
const CLEAN_SESSION: u8 = 0x02;
const USER_NAME: u8 = 0x80;
const PASSWORD: u8 = 0x40;
/// The keep-alive of the connection, seconds.
const KEEP_ALIVE: u16 = 10;

/// What listens at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broker {
    /// A broker that accepts the client.
    Accepts,
    /// A broker that refuses the client; the code of its answer.
    Refuses(u8),
    /// A server of another protocol.
    OtherProtocol,
    /// Nothing listens.
    None,
}

impl Broker {
    /// Reports whether it is a broker.
    pub(crate) fn is_broker(self) -> bool {
        matches!(self, Self::Accepts | Self::Refuses(_))
    }
}

/// A broker, and the credentials for it.
pub(crate) struct BrokerAddress {
    /// Host and port.
    pub(crate) server: String,
    /// TLS, and the name in the broker's certificate.
    pub(crate) tls: Option<(Arc<ClientConfig>, String)>,
    /// User name and password.
    pub(crate) user: Option<(String, Option<Secret>)>,
}

impl BrokerAddress {
    /// Returns the address of a broker without TLS and credentials.
    pub(crate) fn plain(server: &str) -> Self {
        Self {
            server: server.to_owned(),
            tls: None,
            user: None,
        }
    }
}

/// Connects, and returns what answers.
pub(crate) async fn connect(address: &BrokerAddress) -> Broker {
    let asked = async {
        let stream = TcpStream::connect(&address.server)
            .await
            .map_err(|_| Broker::None)?;
        let packet = connect_packet(address.user.as_ref());
        let code = match &address.tls {
            None => exchange(stream, &packet).await,
            Some((tls, name)) => {
                let name = ServerName::try_from(name.clone()).map_err(|_| Broker::OtherProtocol)?;
                let stream = TlsConnector::from(tls.clone()).connect(name, stream).await;
                exchange(stream.map_err(|_| Broker::OtherProtocol)?, &packet).await
            }
        };
        code.map_err(|_| Broker::OtherProtocol)
    };
    match timeout(BROKER_TIMEOUT, asked).await {
        Ok(Ok(Some(0))) => Broker::Accepts,
        Ok(Ok(Some(code))) => Broker::Refuses(code),
        Ok(Err(found)) => found,
        Ok(Ok(None)) | Err(_) => Broker::OtherProtocol,
    }
}

/// Returns the code of the answer; `None` if it is no CONNACK.
async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    packet: &[u8],
) -> io::Result<Option<u8>> {
    stream.write_all(packet).await?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await?;
    let [first, second, _, code] = answer;
    // the broker may have closed the connection
    let _ = stream.write_all(&DISCONNECT).await;
    Ok(([first, second] == CONNACK).then_some(code))
}

fn connect_packet(user: Option<&(String, Option<Secret>)>) -> Vec<u8> {
    let mut flags = CLEAN_SESSION;
    let mut payload = Vec::new();
    let mut push = |text: &str| {
        // longer texts are invalid in MQTT
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        payload.extend(length.to_be_bytes());
        payload.extend(text.bytes().take(usize::from(length)));
    };
    push(CLIENT_ID);
    if let Some((name, password)) = user {
        flags |= USER_NAME;
        push(name);
        if let Some(password) = password {
            flags |= PASSWORD;
            push(password.expose());
        }
    }
    let mut body = b"\x00\x04MQTT\x04".to_vec();
    body.push(flags);
    body.extend(KEEP_ALIVE.to_be_bytes());
    body.extend(payload);
    let mut packet = vec![0x10];
    let mut rest = body.len();
    // the remaining length has seven bits a byte
    loop {
        let (low, more) = (rest & 0x7f, rest >> 7);
        let bit = if more > 0 { 0x80 } else { 0 };
        packet.push(u8::try_from(low).unwrap_or_default() | bit);
        rest = more;
        if rest == 0 {
            break;
        }
    }
    packet.extend(body);
    packet
}
