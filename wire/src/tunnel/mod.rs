//! The frames of the stream tunnel, over which the cloud reaches logs, exec, attach and metrics of a node.
//!
//! The node dials `wss://<cloud>:10004/v1/kubeedge/connect`. Both ends send WebSocket *text* messages, although their bytes are arbitrary:
//! `uvarint id`, `uvarint type`, data. The cloud chooses the ids, one for each request; id 0 is the tunnel itself. A stream begins with one
//! of the connect frames, whose data is [`Connect`] as JSON, and ends with [`Kind::RemoveConnect`] from either end. Sources: KubeEdge
//! `pkg/stream/{message,connection}.go`. One type is our extension and is sent only if both ends know it: see [`window`].

pub mod window;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The path that nodes dial.
pub const PATH: &str = "/v1/kubeedge/connect";
/// The header that holds the node's name.
pub const NODE_HEADER: &str = "SessionHostNameOverride";
/// The header that holds the node's address.
pub const ADDRESS_HEADER: &str = "SessionInternalIP";
/// The payload of EdgeCore's pings.
pub const PING: &[u8] = b"ping you";
/// The largest data of a frame, bytes. KubeEdge silently truncates longer data.
pub const MAX_DATA: usize = 1024 * 1024;
/// The largest frame: two numbers and data, bytes.
pub const MAX_FRAME: usize = MAX_DATA + 2 * MAX_VARINT;
/// The size of the longest number, bytes.
const MAX_VARINT: usize = 10;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident = $number:literal from $sender:literal,)*) => {
        /// The type of a frame. The numbers are KubeEdge's, except for the last.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[doc = $doc])+ $variant,)*
        }

        impl Kind {
            /// All types.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the type's number on the wire.
            pub fn number(self) -> u64 {
                match self {
                    $(Self::$variant => $number,)*
                }
            }

            /// Returns the type's name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)*
                }
            }

            /// Returns the ends that send frames of the type: `cloud`, `edge` or `both`.
            pub fn sender(self) -> &'static str {
                match self {
                    $(Self::$variant => $sender,)*
                }
            }

            /// Returns what a frame of the type does.
            pub fn summary(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc),+).trim_ascii_start(),)*
                }
            }
        }
    };
}

kinds! {
    /// Requests a container's log: a GET whose body is sent in data frames, without its status.
    Logs = 0 from "cloud",
    /// Requests an exec: the bytes of an upgraded HTTP connection are sent both ways, including the heads.
    Exec = 1 from "cloud",
    /// Requests metrics, in the same way as logs.
    Metrics = 2 from "cloud",
    /// Carries bytes of a stream.
    Data = 3 from "both",
    /// Ends a stream. The node sends it once, after the last data. `CloudCore` sends it if the client has gone before the node has ended
    /// the stream: once for logs and metrics, repeatedly until the node's arrives for exec and attach.
    RemoveConnect = 4 from "both",
    /// Closes the tunnel, for example because there is no such Node; the data is the reason, as text.
    CloseConnect = 5 from "cloud",
    /// Requests an attach, in the same way as an exec.
    Attach = 6 from "cloud",
    /// Reports how many bytes of the stream the sender has read (a uvarint), and that it accepts as many more. This project's extension,
    /// with a number far from those that KubeEdge may assign next.
    Window = 100 from "both",
}

impl Kind {
    fn of(number: u64) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|kind| kind.number() == number)
    }
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The id of the stream, chosen by the cloud.
    pub id: u64,
    /// The type.
    pub kind: Kind,
    /// The data.
    pub data: Bytes,
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes end within a number.
    #[error("the frame ends within its head")]
    Short,
    /// A number has more than 64 bits.
    #[error("a number in the frame's head is too large")]
    Number,
    /// The type is unknown; KubeEdge ignores such frames.
    #[error("unknown frame type {0}")]
    Kind(u64),
    /// The data is larger than [`MAX_DATA`].
    #[error("the frame has {0} bytes of data")]
    TooLarge(usize),
}

impl Frame {
    /// Creates a frame.
    pub fn new(id: u64, kind: Kind, data: impl Into<Bytes>) -> Self {
        Self {
            id,
            kind,
            data: data.into(),
        }
    }

    /// Creates a frame that reports that `bytes` bytes of the stream were read.
    pub fn window(id: u64, bytes: usize) -> Self {
        let mut data = Vec::with_capacity(MAX_VARINT);
        put_uvarint(&mut data, u64::try_from(bytes).unwrap_or(u64::MAX));
        Self::new(id, Kind::Window, data)
    }

    /// Returns the number of bytes of the stream that were read, if this is a window frame.
    pub fn window_bytes(&self) -> Option<usize> {
        let mut data = self.data.clone();
        let bytes = uvarint(&mut data)
            .ok()
            .filter(|_| self.kind == Kind::Window && data.is_empty())?;
        usize::try_from(bytes).ok()
    }

    /// Decodes the payload of a WebSocket message.
    ///
    /// # Errors
    /// The payload is not a frame, or the frame is too large.
    pub fn decode(mut payload: Bytes) -> Result<Self, FrameError> {
        let id = uvarint(&mut payload)?;
        let number = uvarint(&mut payload)?;
        let kind = Kind::of(number).ok_or(FrameError::Kind(number))?;
        if payload.len() > MAX_DATA {
            return Err(FrameError::TooLarge(payload.len()));
        }
        Ok(Self {
            id,
            kind,
            data: payload,
        })
    }

    /// Encodes the frame as the payload of a WebSocket text message.
    pub fn encode(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(2 * MAX_VARINT + self.data.len());
        put_uvarint(&mut payload, self.id);
        put_uvarint(&mut payload, self.kind.number());
        payload.extend_from_slice(&self.data);
        payload
    }
}

/// Reads a number as Go's `binary.ReadUvarint` does.
fn uvarint(bytes: &mut Bytes) -> Result<u64, FrameError> {
    let mut value = 0_u64;
    for (place, byte) in bytes.iter().enumerate().take(MAX_VARINT) {
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * u32::try_from(place).unwrap_or(u32::MAX);
        if bits.leading_zeros() < shift {
            return Err(FrameError::Number);
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            drop(bytes.split_to(place + 1));
            return Ok(value);
        }
    }
    Err(if bytes.len() < MAX_VARINT {
        FrameError::Short
    } else {
        FrameError::Number
    })
}

fn put_uvarint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// The data of a connect frame: the HTTP request that opens a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct Connect {
    /// The stream's id, repeated.
    #[serde(rename = "MessID")]
    pub id: u64,
    /// The requested URL.
    pub url: Url,
    /// The request's headers. Go writes `null` for no headers.
    #[serde(deserialize_with = "or_default")]
    pub header: BTreeMap<String, Vec<String>>,
    /// The request's method; set for exec and attach only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
}

/// Go's `url.URL`, field by field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct Url {
    /// Always `http`.
    pub scheme: String,
    /// Always empty.
    pub opaque: String,
    /// Always `null`.
    pub user: Option<serde_json::Value>,
    /// The kubelet's server on the node, `127.0.0.1:10350`. Nodes do not let the cloud choose the host.
    pub host: String,
    /// The path, decoded.
    pub path: String,
    /// The path as it was written, if that differs from the default encoding.
    pub raw_path: String,
    /// Always false.
    pub omit_host: bool,
    /// Whether a `?` is written before an empty query.
    pub force_query: bool,
    /// The query, encoded.
    pub raw_query: String,
    /// Always empty.
    pub fragment: String,
    /// Always empty.
    pub raw_fragment: String,
}

impl Connect {
    /// Creates a request for `path` (decoded) and `query` (encoded), as `CloudCore` does.
    pub fn new(id: u64, path: impl Into<String>, query: impl Into<String>) -> Self {
        let url = Url {
            scheme: "http".into(),
            host: "127.0.0.1:10350".into(),
            path: path.into(),
            raw_query: query.into(),
            ..Url::default()
        };
        Self {
            id,
            url,
            header: BTreeMap::new(),
            method: None,
        }
    }

    /// Sets the method.
    #[must_use]
    pub fn method(mut self, method: impl Into<String>) -> Self {
        self.method = Some(method.into());
        self
    }

    /// Adds a header. Names are written in Go's form, such as `X-Stream-Protocol-Version`.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.header
            .entry(name.into())
            .or_default()
            .push(value.into());
        self
    }

    /// Returns the connect frame of this request.
    ///
    /// # Errors
    /// The request cannot be written as JSON.
    pub fn frame(&self, kind: Kind) -> Result<Frame, serde_json::Error> {
        Ok(Frame::new(self.id, kind, serde_json::to_vec(self)?))
    }

    /// Decodes the data of a connect frame.
    ///
    /// # Errors
    /// The data is not JSON of this form.
    pub fn decode(data: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(data)
    }
}

fn or_default<'de, D: serde::Deserializer<'de>, T: Deserialize<'de> + Default>(
    value: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_gos() {
        for (value, bytes) in [
            (0, &[0][..]),
            (127, &[127]),
            (128, &[128, 1]),
            (300, &[0xac, 2]),
            (u64::MAX, &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ] {
            let mut out = Vec::new();
            put_uvarint(&mut out, value);
            assert_eq!(out, bytes);
            let mut read = Bytes::copy_from_slice(&[bytes, b"rest"].concat());
            assert_eq!(uvarint(&mut read), Ok(value));
            assert_eq!(read, "rest");
        }
        for (bytes, error) in [
            (&[][..], FrameError::Short),
            (&[0x80; 9], FrameError::Short),
            (
                &[255, 255, 255, 255, 255, 255, 255, 255, 255, 2],
                FrameError::Number,
            ),
            (&[0x80; 11], FrameError::Number),
        ] {
            assert_eq!(
                uvarint(&mut Bytes::copy_from_slice(bytes)),
                Err(error),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn a_frame_that_is_none_says_why() {
        let decode = |bytes: &[u8]| Frame::decode(Bytes::copy_from_slice(bytes));
        assert_eq!(decode(&[1]), Err(FrameError::Short));
        assert_eq!(decode(&[1, 7]), Err(FrameError::Kind(7)));
        let large = [vec![1, 3], vec![0; MAX_DATA + 1]].concat();
        assert_eq!(decode(&large), Err(FrameError::TooLarge(MAX_DATA + 1)));
        assert!(decode(&large[..large.len() - 1]).is_ok());
    }

    #[test]
    fn what_was_taken_is_a_number_and_nothing_else() {
        for bytes in [0, 1, 65536, usize::MAX] {
            let frame = Frame::window(7, bytes);
            let read = Frame::decode(frame.encode().into()).unwrap();
            assert_eq!(
                (read.id, read.kind, read.window_bytes()),
                (7, Kind::Window, Some(bytes))
            );
        }
        for data in [&[][..], &[0x80], &[1, 2], &[0xff; 11]] {
            assert_eq!(
                Frame::new(7, Kind::Window, data.to_vec()).window_bytes(),
                None,
                "{data:?}"
            );
        }
        assert_eq!(Frame::new(7, Kind::Data, vec![1]).window_bytes(), None);
    }

    #[test]
    fn a_connect_without_headers_is_read() {
        let read =
            Connect::decode(br#"{"MessID":7,"url":{"Path":"/metrics"},"header":null}"#).unwrap();
        assert_eq!(
            (read.id, read.url.path.as_str(), read.header.len()),
            (7, "/metrics", 0)
        );
        assert!(Connect::decode(b"null").is_err());
        assert!(Connect::decode(b"[]").is_err());
    }
}
