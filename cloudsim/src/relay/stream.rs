//! The streams of a QUIC connection, and the messages with which they begin.

use quinn::{Connection, RecvStream, SendStream};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use wire::{
    relay::{HEADER_LENGTH, body_length, decode, encode},
    text::printable_short,
};

/// Both directions of a stream.
pub(super) type BiStream = (SendStream, RecvStream);

pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The first message of a stream between replicas.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Between {
    /// The node that asks, connected to the replica that sends this.
    pub(super) from: String,
    /// The other node, connected to the replica that receives this.
    pub(super) to: String,
}

/// Opens a stream that begins with this message.
pub(super) async fn open_stream(
    connection: &Connection,
    message: &impl Serialize,
) -> Result<BiStream, Failure> {
    let mut stream = connection.open_bi().await?;
    stream.0.write_all(&encode(message)?).await?;
    Ok(stream)
}

/// Reads the message with which a stream begins.
pub(super) async fn read_message<T: DeserializeOwned>(
    stream: &mut RecvStream,
) -> Result<T, Failure> {
    let mut header = [0; HEADER_LENGTH];
    stream.read_exact(&mut header).await?;
    let mut text = vec![0; body_length(header)?];
    stream.read_exact(&mut text).await?;
    Ok(decode(&text)?)
}

/// The answer to a node that names one that is not connected.
pub(super) fn not_connected(node: &str) -> String {
    let node = printable_short(node);
    format!("node {node} is not connected to the relay; `cloudsim mesh` lists connected nodes")
}
