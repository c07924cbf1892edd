//! The lines of a recording, each a JSON object.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wire::{Message, version};

/// The version of the format that is written. A reader refuses later versions.
pub const VERSION: u32 = 1;
/// The name of the format, in the first line of each file.
pub(crate) const FORMAT: &str = "kubeedge-recording";

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Line {
    /// The first line of each file.
    Recording(Header),
    /// A connection was opened. At the begin of each file, the open connections are repeated.
    Connection(Connection),
    /// Something was sent over a connection.
    Frame(Box<Frame>),
    /// A connection has ended.
    End(End),
    /// Frames were not recorded.
    Gap(Gap),
    /// A line of a later program, to be ignored.
    #[serde(other)]
    Unknown,
}

/// Who recorded what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// `kubeedge-recording`.
    pub format: String,
    /// The version of the format.
    pub version: u32,
    /// The program that recorded, with its version.
    pub program: String,
    /// The version of KubeEdge whose protocol it speaks.
    pub kubeedge: String,
    /// The side that recorded.
    pub side: Side,
    /// When the recording was started, RFC 3339.
    pub started: String,
    /// The number of the file in the recording, from 1.
    pub part: u32,
    /// Whether secrets were replaced.
    pub redacted: bool,
}

impl Header {
    /// Returns the header of a new recording.
    pub(crate) fn new(program: &str, side: Side, redacted: bool) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            program: program.to_owned(),
            kubeedge: version::KUBEEDGE.to_owned(),
            side,
            started: jiff::Timestamp::now().to_string(),
            part: 1,
            redacted,
        }
    }
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The node.
    Edge,
    /// The cloud.
    Cloud,
}

/// What a connection is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// A session over a WebSocket.
    WebSocket,
    /// A session over QUIC.
    Quic,
    /// A stream tunnel.
    Tunnel,
    /// Enrolment over HTTPS.
    Enrolment,
}

/// A new connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// Its id, unique in the recording.
    pub id: u64,
    /// When it was opened, nanoseconds since 1970.
    pub time: u64,
    /// What it is used for.
    pub transport: Transport,
    /// The node; empty if it is unknown.
    pub node: String,
    /// The address of the other end; empty if it is unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub peer: String,
    /// The headers with which it was opened.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// Something that was sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// The connection.
    pub connection: u64,
    /// When it was sent or received, nanoseconds since 1970.
    pub time: u64,
    /// The side that sent it.
    pub from: Side,
    /// Its size before compression and without headers of the transport, bytes. Secrets count as they were.
    pub size: u64,
    /// The kind of message, by the name in the specification.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// What it is.
    #[serde(flatten)]
    pub body: Body,
}

/// What was sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Body {
    /// A message of a session.
    Message(Box<Message>),
    /// A frame of a tunnel.
    Tunnel {
        /// The stream.
        stream: u64,
        /// The type's number.
        kind: u64,
        /// The data, base64; `None` if it was replaced.
        data: Option<String>,
    },
    /// An HTTP request.
    Request {
        /// The method.
        method: String,
        /// The path.
        path: String,
        /// The headers.
        headers: BTreeMap<String, String>,
        /// The body, base64.
        body: String,
    },
    /// An HTTP response.
    Response {
        /// The status.
        status: u16,
        /// The body, base64.
        body: String,
    },
    /// Bytes that are none of these, base64.
    Raw(String),
}

/// The end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The connection.
    pub connection: u64,
    /// When it ended, nanoseconds since 1970.
    pub time: u64,
}

/// Frames that were not recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// When this was noticed, nanoseconds since 1970.
    pub time: u64,
    /// The number of frames.
    pub frames: u64,
}

impl Line {
    /// Returns the line's time, if it has one.
    pub fn time(&self) -> Option<u64> {
        match self {
            Self::Recording(_) | Self::Unknown => None,
            Self::Connection(line) => Some(line.time),
            Self::Frame(line) => Some(line.time),
            Self::End(line) => Some(line.time),
            Self::Gap(line) => Some(line.time),
        }
    }
}
