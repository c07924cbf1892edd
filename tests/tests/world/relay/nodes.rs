//! Nodes at the relay that the tests play, and their streams.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use quinn::{
    Connection, Endpoint, RecvStream, SendStream, TransportConfig, VarInt,
    crypto::rustls::QuicClientConfig,
};
use tests::within;
use wire::relay::{
    ALPN, Answer, HEADER_LENGTH, MAX_STREAMS, Open, WINDOW, body_length, decode, encode,
};

use crate::raw::Caller;

/// A node at the relay; or the reason why it is none.
pub(crate) async fn connect(relay: SocketAddr, caller: &Caller) -> Result<Connection, String> {
    let mut tls = caller.client();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(VarInt::from_u32(MAX_STREAMS));
    transport.stream_receive_window(VarInt::from_u32(WINDOW));
    // as agents do: the relay gives up whoever says nothing
    transport.keep_alive_interval(Some(Duration::from_secs(3)));
    let mut client = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    client.transport_config(Arc::new(transport));
    let endpoint = Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let connecting = endpoint.connect_with(client, relay, "localhost").unwrap();
    within("a connection", connecting)
        .await
        .map_err(|error| error.to_string())
}

pub(crate) async fn hear<T: serde::de::DeserializeOwned>(stream: &mut RecvStream) -> T {
    let mut header = [0; HEADER_LENGTH];
    within("a head", stream.read_exact(&mut header))
        .await
        .unwrap();
    let mut text = vec![0; body_length(header).unwrap()];
    within("a text", stream.read_exact(&mut text))
        .await
        .unwrap();
    decode(&text).unwrap()
}

pub(crate) async fn open(connection: &Connection, to: &str) -> (SendStream, RecvStream) {
    let (mut send, receive) = within("a stream", connection.open_bi()).await.unwrap();
    send.write_all(
        &encode(&Open {
            node: to.to_owned(),
        })
        .unwrap(),
    )
    .await
    .unwrap();
    (send, receive)
}

/// The relay's refusal.
pub(crate) async fn refusal(connection: &Connection, to: &str) -> String {
    let (_send, mut receive) = open(connection, to).await;
    hear::<Answer>(&mut receive).await.error.expect("a refusal")
}

/// A stream from one node to another, which has accepted it; the first byte has gone.
pub(crate) async fn open_pair(
    from: &Connection,
    to: &Connection,
    name: &str,
) -> [(SendStream, RecvStream); 2] {
    let mut ours = open(from, name).await;
    let mut theirs = within("a stream of the other node", to.accept_bi())
        .await
        .unwrap();
    hear::<Open>(&mut theirs.1).await;
    theirs
        .0
        .write_all(&encode(&Answer::default()).unwrap())
        .await
        .unwrap();
    assert_eq!(hear::<Answer>(&mut ours.1).await, Answer::default());
    ours.0.write_all(b"f").await.unwrap();
    let mut first = [0];
    within("the first byte", theirs.1.read_exact(&mut first))
        .await
        .unwrap();
    [ours, theirs]
}
