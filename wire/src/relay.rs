//! What nodes that cannot reach each other say over the relay: `edge-agent` to `cloudsim`, `cloudsim` to the other agent, and, encrypted
//! for each other, the two agents.
//!
//! Each node holds one QUIC connection to the cloud, with its certificate. A connection to a pod is a stream of it, which the
//! cloud joins to one that it opens to the other node:
//!
//! | who | what |
//! |---|---|
//! | node → cloud | [`Open`]: the node that is wanted |
//! | cloud → other node | [`Open`]: the node that wants it |
//! | other node → cloud → node | [`Answer`]: whether it takes the stream; the cloud's own where there is no such node |
//! | both nodes | TLS 1.3 in the stream, with their certificates |
//! | node → other node, in TLS | [`Wanted`]: the endpoint of a Service |
//! | other node → node, in TLS | [`Answer`]: whether it was reached; then the bytes of the connection |
//!
//! A stream in one direction, from the node to the cloud, is a [`Report`]. Everything that is told is a [`frame`]: its length in two bytes,
//! big-endian, and JSON. Datagrams of UDP go as such frames too, with their bytes in the place of JSON.

use std::{collections::BTreeMap, net::SocketAddr};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The protocol's name between a node and the cloud.
pub const ALPN: &[u8] = b"outrigger-relay/1";
/// The protocol's name between two nodes.
pub const INNER_ALPN: &[u8] = b"outrigger-mesh/1";
/// The port of EdgeMesh's own tunnel.
pub const PORT: u16 = 20006;
/// Bytes of a frame before its content.
pub const HEAD: usize = 2;
/// The largest text that is told, bytes; a datagram may fill its frame.
pub const MAX_TEXT: usize = 4 * 1024;
/// Streams that a node has at a time, in each direction. Further ones are refused.
pub const MAX_STREAMS: u32 = 512;
/// Bytes of a stream that wait for their reader, at each of the three programs.
pub const WINDOW: u32 = 256 * 1024;
/// The largest report, bytes.
pub const MAX_REPORT: usize = 64 * 1024;

/// Asks for a stream to another node, or tells that node who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// The other node.
    pub node: String,
}

/// The protocol of a connection to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// A stream.
    Tcp,
    /// Datagrams, each a frame.
    Udp,
}

/// The endpoint that is wanted: one that the other node itself knows for its own, of this port of this Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// The Service's namespace.
    pub namespace: String,
    /// The Service's name.
    pub service: String,
    /// The name of the Service's port; empty for the only one.
    pub port: String,
    /// Over what.
    pub protocol: Protocol,
    /// The endpoint's address and port.
    pub endpoint: SocketAddr,
}

/// What becomes of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Why not; none: it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Answer {
    /// It is refused, for this reason.
    pub fn refused(why: impl Into<String>) -> Self {
        Self { error: Some(why.into()) }
    }
}

/// The way to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Path {
    /// Its pods answer.
    Direct,
    /// They are reached over the relay.
    Relayed,
    /// Neither.
    Unreached,
}

/// A node's ways to others, as it has found them with its connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// By the other nodes.
    pub paths: BTreeMap<String, Path>,
}

/// Why something is not what should be told.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// It is longer than it may be.
    #[error("{0} bytes are told, of {1} at most")]
    TooLarge(usize, usize),
    /// It is no JSON of its form.
    #[error("what is told cannot be read: {0}")]
    Form(#[from] serde_json::Error),
}

/// Content with its length before it.
///
/// # Errors
/// It is longer than a frame can be.
pub fn frame(content: &[u8]) -> Result<Vec<u8>, RelayError> {
    let most = usize::from(u16::MAX);
    let length = u16::try_from(content.len()).map_err(|_| RelayError::TooLarge(content.len(), most))?;
    Ok([&length.to_be_bytes(), content].concat())
}

/// Something to be told, as a frame.
///
/// # Errors
/// It is longer than may be told.
pub fn told(what: &impl Serialize) -> Result<Vec<u8>, RelayError> {
    let text = serde_json::to_vec(what)?;
    if text.len() > MAX_TEXT {
        return Err(RelayError::TooLarge(text.len(), MAX_TEXT));
    }
    frame(&text)
}

/// How long the text after this head is.
///
/// # Errors
/// Longer than may be told.
pub fn text_length(head: [u8; HEAD]) -> Result<usize, RelayError> {
    let length = usize::from(u16::from_be_bytes(head));
    if length > MAX_TEXT { Err(RelayError::TooLarge(length, MAX_TEXT)) } else { Ok(length) }
}

/// Reads what was told.
///
/// # Errors
/// It is no JSON of its form.
pub fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, RelayError> {
    Ok(serde_json::from_slice(text)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_told_is_read() {
        let wanted = Wanted {
            namespace: "shop".into(),
            service: "web".into(),
            port: "http".into(),
            protocol: Protocol::Tcp,
            endpoint: ([10, 88, 0, 5], 8080).into(),
        };
        let bytes = told(&wanted).unwrap();
        let length = text_length([bytes[0], bytes[1]]).unwrap();
        assert_eq!(length, bytes.len() - HEAD);
        assert_eq!(read::<Wanted>(&bytes[HEAD..]).unwrap(), wanted);
        assert_eq!(serde_json::to_value(Answer::default()).unwrap(), json!({}));
        let report = Report { paths: [("edge-2".to_owned(), Path::Relayed)].into() };
        assert_eq!(serde_json::to_value(report).unwrap(), json!({"paths": {"edge-2": "relayed"}}));
    }

    #[test]
    fn what_is_too_long_or_no_text_is_refused() {
        assert!(matches!(told(&Answer::refused("x".repeat(MAX_TEXT))), Err(RelayError::TooLarge(..))));
        assert!(matches!(frame(&vec![0; 65_536]), Err(RelayError::TooLarge(65_536, 65_535))));
        assert!(frame(&vec![0; 65_535]).is_ok());
        assert!(text_length(0xffff_u16.to_be_bytes()).is_err());
        for bad in [&b""[..], b"{", b"[]", br#"{"node":1}"#, br#"{"node":"a","to":"b"}"#, b"\xff"] {
            assert!(read::<Open>(bad).is_err(), "{bad:?}");
        }
    }
}
