//! The relay's protocol, which connects nodes that cannot reach each other to each other's pods: messages between `edge-agent` and
//! `cloudsim`, and encrypted messages from agent to agent.
//!
//! Each node holds one QUIC connection to the cloud, authenticated with its certificate. A connection to a pod is a stream of it, which the
//! cloud joins to a stream that it opens to the other node:
//!
//! | from, to | message |
//! |---|---|
//! | node → cloud | [`Open`]: the node to connect to |
//! | cloud → other node | [`Open`]: the node that connects |
//! | other node → cloud → node | [`Answer`]: whether it accepts the stream; the cloud's own answer where there is no such node |
//! | both nodes | TLS 1.3 in the stream, with their certificates |
//! | node → other node, in TLS | [`ConnectRequest`]: the endpoint of a Service |
//! | other node → node, in TLS | [`Answer`]: whether the endpoint was reached; then the bytes of the connection |
//!
//! A unidirectional stream from the node to the cloud is a [`Report`]. Every other message is a [`frame`]: a two-byte big-endian length,
//! then JSON. UDP datagrams are sent as such frames too, with their bytes instead of JSON.

use std::{collections::BTreeMap, net::SocketAddr};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The ALPN protocol between a node and the cloud.
pub const ALPN: &[u8] = b"outrigger-relay/1";
/// The ALPN protocol between two nodes.
pub const INNER_ALPN: &[u8] = b"outrigger-mesh/1";
/// The port of EdgeMesh's own tunnel.
pub const PORT: u16 = 20006;
/// The size of a frame's header, bytes.
pub const HEADER_LENGTH: usize = 2;
/// The largest message, bytes of JSON. Datagrams may use the whole frame.
pub const MAX_MESSAGE: usize = 4 * 1024;
/// The most streams that a node may have open in each direction. Further ones are refused.
pub const MAX_STREAMS: u32 = 512;
/// The flow-control window of a stream in each of the three programs, bytes.
pub const WINDOW: u32 = 256 * 1024;
/// The largest report, bytes.
pub const MAX_REPORT: usize = 64 * 1024;

/// Asks for a stream to another node, or names the node that asks for one.
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
    /// A TCP stream.
    Tcp,
    /// UDP datagrams, each as a frame.
    Udp,
}

/// Asks the other node to connect to one of its own endpoints of a Service port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectRequest {
    /// The Service's namespace.
    pub namespace: String,
    /// The Service's name.
    pub service: String,
    /// The name of the Service's port; empty for an unnamed port.
    pub port: String,
    /// The protocol of the connection.
    pub protocol: Protocol,
    /// The endpoint's address and port.
    pub endpoint: SocketAddr,
}

/// Answers an [`Open`] or a [`ConnectRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Why the request is refused; `None` if it is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Answer {
    /// Creates a refusal with this reason.
    pub fn refused(why: impl Into<String>) -> Self {
        Self {
            error: Some(why.into()),
        }
    }
}

/// How another node is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Path {
    /// The node's pods answer directly.
    Direct,
    /// The node's pods are reached over the relay.
    Relayed,
    /// The node's pods are not reached in either way.
    Unreached,
}

impl Path {
    /// Returns the path in a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Relayed => "relayed",
            Self::Unreached => "unreached",
        }
    }
}

/// The paths to other nodes that a node's connections have found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The paths by the name of the other node.
    pub paths: BTreeMap<String, Path>,
}

/// Why a message is unusable.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The message is too long: its size and the limit, bytes.
    #[error("the message has {0} bytes, of {1} at most")]
    TooLarge(usize, usize),
    /// The message is not JSON of the expected form.
    #[error("cannot parse the message: {0}")]
    Form(#[from] serde_json::Error),
}

/// Frames a body: its length, then its bytes.
///
/// # Errors
/// The body is longer than a frame can be.
pub fn frame(content: &[u8]) -> Result<Vec<u8>, RelayError> {
    let most = usize::from(u16::MAX);
    let length =
        u16::try_from(content.len()).map_err(|_| RelayError::TooLarge(content.len(), most))?;
    Ok([&length.to_be_bytes(), content].concat())
}

/// Encodes a message as a frame.
///
/// # Errors
/// The message is longer than [`MAX_MESSAGE`].
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, RelayError> {
    let text = serde_json::to_vec(message)?;
    if text.len() > MAX_MESSAGE {
        return Err(RelayError::TooLarge(text.len(), MAX_MESSAGE));
    }
    frame(&text)
}

/// Returns the length of the body that follows this header.
///
/// # Errors
/// The body is longer than [`MAX_MESSAGE`].
pub fn body_length(header: [u8; HEADER_LENGTH]) -> Result<usize, RelayError> {
    let length = usize::from(u16::from_be_bytes(header));
    if length > MAX_MESSAGE {
        Err(RelayError::TooLarge(length, MAX_MESSAGE))
    } else {
        Ok(length)
    }
}

/// Decodes the body of a message.
///
/// # Errors
/// The text is not JSON of the expected form.
pub fn decode<T: DeserializeOwned>(text: &[u8]) -> Result<T, RelayError> {
    Ok(serde_json::from_slice(text)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_are_decoded_as_they_were_encoded() {
        let request = ConnectRequest {
            namespace: "shop".into(),
            service: "web".into(),
            port: "http".into(),
            protocol: Protocol::Tcp,
            endpoint: ([10, 88, 0, 5], 8080).into(),
        };
        let bytes = encode(&request).unwrap();
        let length = body_length([bytes[0], bytes[1]]).unwrap();
        assert_eq!(length, bytes.len() - HEADER_LENGTH);
        assert_eq!(
            decode::<ConnectRequest>(&bytes[HEADER_LENGTH..]).unwrap(),
            request
        );
        assert_eq!(serde_json::to_value(Answer::default()).unwrap(), json!({}));
        let report = Report {
            paths: [("edge-2".to_owned(), Path::Relayed)].into(),
        };
        assert_eq!(
            serde_json::to_value(report).unwrap(),
            json!({"paths": {"edge-2": "relayed"}})
        );
    }

    #[test]
    fn long_and_malformed_messages_are_refused() {
        assert!(matches!(
            encode(&Answer::refused("x".repeat(MAX_MESSAGE))),
            Err(RelayError::TooLarge(..))
        ));
        assert!(matches!(
            frame(&vec![0; 65_536]),
            Err(RelayError::TooLarge(65_536, 65_535))
        ));
        assert!(frame(&vec![0; 65_535]).is_ok());
        assert!(body_length(0xffff_u16.to_be_bytes()).is_err());
        for bad in [
            &b""[..],
            b"{",
            b"[]",
            br#"{"node":1}"#,
            br#"{"node":"a","to":"b"}"#,
            b"\xff",
        ] {
            assert!(decode::<Open>(bad).is_err(), "{bad:?}");
        }
    }
}
