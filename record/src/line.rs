//! The lines of a recording, each a JSON object.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
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
            started: clock::now().to_string(),
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

/// The deepest nesting of a line. A reader's parser ends at 128 levels.
const MAX_DEPTH: usize = 120;

impl Line {
    /// Returns the text of the line, without its end, of `limit` bytes at most. A frame that is larger, or nested too deeply for
    /// readers, is written without its content, and another line of that kind as a gap.
    pub(crate) fn encode(&self, limit: usize) -> serde_json::Result<Vec<u8>> {
        let fits = |text: &[u8]| text.len() <= limit && depth(text) <= MAX_DEPTH;
        let text = serde_json::to_vec(self)?;
        if fits(&text) {
            return Ok(text);
        }
        if let Self::Frame(frame) = self {
            let text = serde_json::to_vec(&Self::Frame(Box::new(frame.without_content())))?;
            if fits(&text) {
                return Ok(text);
            }
        }
        serde_json::to_vec(&Self::Gap(Gap {
            time: self.time().unwrap_or_default(),
            frames: 1,
        }))
    }

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

impl Frame {
    /// Returns the frame without what may be large.
    pub(crate) fn without_content(&self) -> Self {
        let mut frame = self.clone();
        match &mut frame.body {
            Body::Message(message) => message.content = Value::Null,
            Body::Tunnel { data, .. } => *data = None,
            Body::Request { body, .. } | Body::Response { body, .. } | Body::Raw(body) => {
                body.clear();
            }
        }
        frame
    }
}

/// Returns how deeply lists and objects are nested in a JSON text.
fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use wire::{Header, Route};

    use super::*;

    fn frame(content: &str) -> Line {
        let content = serde_json::from_str(content).unwrap();
        let message = Message {
            header: Header::default(),
            route: Route::default(),
            content,
        };
        Line::Frame(Box::new(Frame {
            connection: 1,
            time: 7,
            from: Side::Edge,
            size: 1,
            kind: "pod".to_owned(),
            body: Body::Message(Box::new(message)),
        }))
    }

    #[test]
    fn line_that_readers_could_not_read_is_written_without_its_content() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        let escaped = r#""[[\"[[""#;
        for (content, limit, has_content) in [
            (nested(100), 4096, true),
            (nested(126), 4096, false),
            (escaped.to_owned(), 4096, true),
            (format!("[{}1e15]", "1e15,".repeat(100)), 4096, true),
            (format!("[{}1e15]", "1e15,".repeat(400)), 4096, false),
        ] {
            let text = frame(&content).encode(limit).unwrap();
            assert!(text.len() <= limit);
            let line: Line = serde_json::from_slice(&text).unwrap();
            let Line::Frame(frame) = line else {
                panic!("{line:?}");
            };
            let Body::Message(message) = frame.body else {
                panic!("{frame:?}");
            };
            assert_eq!(!message.content.is_null(), has_content, "{content}");
        }
    }
}
