//! The frames of the stream tunnel, over which the cloud reaches logs, exec, attach and metrics of a node.
//!
//! The node dials `wss://<cloud>:10004/v1/kubeedge/connect`, and both ends send WebSocket *text* messages, although their bytes are
//! arbitrary: `uvarint id`, `uvarint type`, data. The cloud makes up the ids, one for each request; id 0 is the tunnel's own. A stream
//! begins with one of the connect frames, whose data is [`Connect`] as JSON; it ends with [`Kind::RemoveConnect`] of either end. Sources:
//! KubeEdge `pkg/stream/{message,connection}.go`. One type is not KubeEdge's, and is sent where both ends know it alone: see [`window`].

pub mod window;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The path that nodes dial.
pub const PATH: &str = "/v1/kubeedge/connect";
/// The header with the node's name.
pub const NODE_HEADER: &str = "SessionHostNameOverride";
/// The header with the node's address.
pub const ADDRESS_HEADER: &str = "SessionInternalIP";
/// The payload of EdgeCore's pings.
pub const PING: &[u8] = b"ping you";
/// Largest data of a frame, bytes: KubeEdge cuts what is beyond without a word.
pub const MAX_DATA: usize = 1024 * 1024;
/// Largest frame: two numbers, and data.
pub const MAX_FRAME: usize = MAX_DATA + 2 * MAX_VARINT;
/// Bytes of the longest number.
const MAX_VARINT: usize = 10;

/// What a frame is for; its numbers are KubeEdge's, but for the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The cloud wants a container's log: a GET whose body comes in data frames, without its status.
    Logs,
    /// The cloud wants an exec: the bytes of an upgraded HTTP connection go both ways, heads included.
    Exec,
    /// The cloud wants metrics, as it wants logs.
    Metrics,
    /// Bytes of a stream.
    Data,
    /// A stream has ended. Each end sends it once; CloudCore repeats it until the node's has come.
    RemoveConnect,
    /// The cloud closes the tunnel, since there is no such node any more; the data is a text that says so.
    CloseConnect,
    /// The cloud wants to attach; as [`Kind::Exec`].
    Attach,
    /// The sender has taken so many bytes of the stream, a uvarint, and takes as many more: see [`window`].
    Window,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Logs,
        Self::Exec,
        Self::Metrics,
        Self::Data,
        Self::RemoveConnect,
        Self::CloseConnect,
        Self::Attach,
        Self::Window,
    ];

    /// Its number.
    pub fn number(self) -> u64 {
        match self {
            Self::Logs => 0,
            Self::Exec => 1,
            Self::Metrics => 2,
            Self::Data => 3,
            Self::RemoveConnect => 4,
            Self::CloseConnect => 5,
            Self::Attach => 6,
            // far from what KubeEdge may number next
            Self::Window => 100,
        }
    }

    fn of(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The stream, by the cloud's number.
    pub id: u64,
    /// What it is for.
    pub kind: Kind,
    /// What it carries.
    pub data: Bytes,
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// They end within a number.
    #[error("the frame ends within its head")]
    Short,
    /// A number has more than 64 bits.
    #[error("a number in the frame's head is too large")]
    Number,
    /// No type has this number; KubeEdge ignores such frames.
    #[error("there is no frame of type {0}")]
    Kind(u64),
    /// The data is larger than [`MAX_DATA`].
    #[error("the frame has {0} bytes of data")]
    TooLarge(usize),
}

impl Frame {
    /// A frame.
    pub fn new(id: u64, kind: Kind, data: impl Into<Bytes>) -> Self {
        Self { id, kind, data: data.into() }
    }

    /// So many bytes of the stream were taken.
    pub fn window(id: u64, bytes: usize) -> Self {
        let mut data = Vec::with_capacity(MAX_VARINT);
        put_uvarint(&mut data, u64::try_from(bytes).unwrap_or(u64::MAX));
        Self::new(id, Kind::Window, data)
    }

    /// How many bytes of the stream were taken, of a frame that says so.
    pub fn taken(&self) -> Option<usize> {
        let mut data = self.data.clone();
        let bytes = uvarint(&mut data).ok().filter(|_| self.kind == Kind::Window && data.is_empty())?;
        usize::try_from(bytes).ok()
    }

    /// From the payload of a WebSocket message.
    ///
    /// # Errors
    /// It is none, or too large.
    pub fn decode(mut payload: Bytes) -> Result<Self, FrameError> {
        let id = uvarint(&mut payload)?;
        let number = uvarint(&mut payload)?;
        let kind = Kind::of(number).ok_or(FrameError::Kind(number))?;
        if payload.len() > MAX_DATA {
            return Err(FrameError::TooLarge(payload.len()));
        }
        Ok(Self { id, kind, data: payload })
    }

    /// As the payload of a WebSocket message, which is to be a text message.
    pub fn encode(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(2 * MAX_VARINT + self.data.len());
        put_uvarint(&mut payload, self.id);
        put_uvarint(&mut payload, self.kind.number());
        payload.extend_from_slice(&self.data);
        payload
    }
}

/// As Go's `binary.ReadUvarint` reads it.
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
    Err(if bytes.len() < MAX_VARINT { FrameError::Short } else { FrameError::Number })
}

fn put_uvarint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// What a connect frame carries: the HTTP request that a stream begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connect {
    /// The stream's number once more.
    #[serde(rename = "MessID")]
    pub id: u64,
    /// What is asked for.
    pub url: Url,
    /// The request's headers. Go writes none as `null`.
    #[serde(deserialize_with = "or_default")]
    pub header: BTreeMap<String, Vec<String>>,
    /// The request's method; only of exec and attach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
}

/// Go's `url.URL`, field by field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Url {
    /// `http`.
    pub scheme: String,
    /// Empty.
    pub opaque: String,
    /// `null`.
    pub user: Option<serde_json::Value>,
    /// The kubelet's server on the node, `127.0.0.1:10350`. Nodes do not let the cloud choose whom they call.
    pub host: String,
    /// The path, decoded.
    pub path: String,
    /// The path as it was written, where that is not the usual way.
    pub raw_path: String,
    /// False.
    pub omit_host: bool,
    /// Whether a `?` is written before an empty query.
    pub force_query: bool,
    /// The query, encoded.
    pub raw_query: String,
    /// Empty.
    pub fragment: String,
    /// Empty.
    pub raw_fragment: String,
}

impl Connect {
    /// A request for `path` (decoded) and `query` (encoded), as CloudCore makes it.
    pub fn new(id: u64, path: impl Into<String>, query: impl Into<String>) -> Self {
        let url = Url {
            scheme: "http".into(),
            host: "127.0.0.1:10350".into(),
            path: path.into(),
            raw_query: query.into(),
            ..Url::default()
        };
        Self { id, url, header: BTreeMap::new(), method: None }
    }

    /// The same with a method.
    #[must_use]
    pub fn method(mut self, method: impl Into<String>) -> Self {
        self.method = Some(method.into());
        self
    }

    /// The same with a header more; names are written as Go writes them, `X-Stream-Protocol-Version`.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.header.entry(name.into()).or_default().push(value.into());
        self
    }

    /// The connect frame of this request.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn frame(&self, kind: Kind) -> Result<Frame, serde_json::Error> {
        Ok(Frame::new(self.id, kind, serde_json::to_vec(self)?))
    }

    /// From the data of a connect frame.
    ///
    /// # Errors
    /// It is no JSON of that form.
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
            (&[255, 255, 255, 255, 255, 255, 255, 255, 255, 2], FrameError::Number),
            (&[0x80; 11], FrameError::Number),
        ] {
            assert_eq!(uvarint(&mut Bytes::copy_from_slice(bytes)), Err(error), "{bytes:?}");
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
            assert_eq!((read.id, read.kind, read.taken()), (7, Kind::Window, Some(bytes)));
        }
        for data in [&[][..], &[0x80], &[1, 2], &[0xff; 11]] {
            assert_eq!(Frame::new(7, Kind::Window, data.to_vec()).taken(), None, "{data:?}");
        }
        assert_eq!(Frame::new(7, Kind::Data, vec![1]).taken(), None);
    }

    #[test]
    fn a_connect_without_headers_is_read() {
        let read = Connect::decode(br#"{"MessID":7,"url":{"Path":"/metrics"},"header":null}"#).unwrap();
        assert_eq!((read.id, read.url.path.as_str(), read.header.len()), (7, "/metrics", 0));
        assert!(Connect::decode(b"null").is_err());
        assert!(Connect::decode(b"[]").is_err());
    }
}
