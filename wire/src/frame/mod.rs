//! The QUIC codec: frames of a ten-byte header and a protobuf message, with limits applied before anything is allocated.
//!
//! Source: KubeEdge's viaduct (packer, translator, `message.proto`). One field is our extension, because reliable delivery needs it: the
//! header's `ResourceVersion`. Route destination and header type are not carried, as in KubeEdge.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | version, `01 01 01 00` |
//! | 4 | 1 | what follows: 1, a message |
//! | 5 | 1 | flags, 0 |
//! | 6 | 4 | bytes that follow, big-endian |
//! | 10 | n | the message |

use prost::Message as _;
use serde_json::Value;

use crate::{Header, Message, Route};

/// The size of a frame's header, bytes.
pub const HEAD: usize = 10;
/// The largest message that KubeEdge's frames carry, bytes.
pub const LIMIT: usize = 32 * 1024 * 1024;
/// Our ALPN protocol. KubeEdge's own QUIC is an older draft, which no current implementation can talk to.
pub const ALPN: &[u8] = b"outrigger/1";
/// The operation and resource of the first frame on the first stream, in which the client identifies itself.
pub const HELLO: &str = "header";
/// The first bytes of a stream of messages.
pub const MESSAGES: &[u8; 3] = b"msg";

const VERSION: [u8; 4] = [1, 1, 1, 0];
const MESSAGE: u8 = 1;

/// Why bytes are not a frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The frame is larger than the receiver allows.
    #[error(
        "a frame of {size} bytes exceeds the limit of {limit}; split it at the sender, or raise the limit"
    )]
    TooLarge {
        /// Announced size, bytes.
        size: usize,
        /// Allowed size, bytes.
        limit: usize,
    },
    /// The frame has another version or does not hold a message.
    #[error(
        "not a frame that holds a message; both ends must speak viaduct's framing, version 1.1.1"
    )]
    Head,
    /// The protobuf message cannot be decoded.
    #[error("a frame holds no message")]
    Malformed(#[source] prost::DecodeError),
    /// The content is neither JSON nor UTF-8 text.
    #[error("a message's content is neither JSON nor UTF-8 text")]
    Content,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Packed {
    #[prost(message, optional, tag = "1")]
    header: Option<PackedHeader>,
    #[prost(message, optional, tag = "2")]
    router: Option<PackedRouter>,
    #[prost(bytes = "vec", tag = "3")]
    content: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PackedHeader {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    parent_id: String,
    #[prost(sint64, tag = "3")]
    timestamp: i64,
    #[prost(bool, tag = "4")]
    sync: bool,
    #[prost(string, tag = "6")]
    resource_version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PackedRouter {
    #[prost(string, tag = "1")]
    source: String,
    #[prost(string, tag = "2")]
    group: String,
    #[prost(string, tag = "3")]
    operation: String,
    #[prost(string, tag = "4")]
    resource: String,
}

/// Encodes one message as a frame.
pub fn encode(message: &Message) -> Vec<u8> {
    let Message { header, route, .. } = message;
    let packed = Packed {
        header: Some(PackedHeader {
            id: header.msg_id.clone(),
            parent_id: header.parent_msg_id.clone(),
            timestamp: header.timestamp,
            sync: header.sync,
            resource_version: header.resource_version.clone(),
        }),
        router: Some(PackedRouter {
            source: route.source.as_str().to_owned(),
            group: route.group.as_str().to_owned(),
            operation: route.operation.as_str().to_owned(),
            resource: route.resource.as_str().to_owned(),
        }),
        content: message.content_bytes(),
    };
    enclose(&packed.encode_to_vec())
}

/// Returns a frame with these bytes, which are a message unless a test sends others.
pub fn enclose(body: &[u8]) -> Vec<u8> {
    // A message of 4 GiB cannot be held in memory; the receiver refuses far smaller ones.
    let size = u32::try_from(body.len()).unwrap_or(u32::MAX);
    [&VERSION[..], &[MESSAGE, 0], &size.to_be_bytes(), body].concat()
}

/// The bytes of a skipped frame that are kept, to know which message it was.
const KEPT_OF_SKIPPED: usize = 4 * 1024;

/// Decodes frames from a stream of bytes that arrive in any portions.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    bytes: Vec<u8>,
    /// The size of the frame that is being skipped, and how much of it is still to come.
    skipped: Option<(usize, usize)>,
}

impl Decoder {
    /// Creates a decoder for messages of at most `limit` bytes, and never more than [`LIMIT`].
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.min(LIMIT),
            bytes: Vec::new(),
            skipped: None,
        }
    }

    /// Appends the next bytes of the stream.
    pub fn push(&mut self, mut bytes: &[u8]) {
        if let Some((_, left)) = &mut self.skipped {
            let (skipped, rest) = bytes.split_at((*left).min(bytes.len()));
            *left -= skipped.len();
            let room = KEPT_OF_SKIPPED
                .saturating_sub(self.bytes.len())
                .min(skipped.len());
            self.bytes.extend_from_slice(&skipped[..room]);
            bytes = rest;
            if *left > 0 {
                return;
            }
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Skips the frame for which [`Self::take`] has returned [`FrameError::TooLarge`].
    pub fn skip(&mut self) {
        let Some([.., a, b, c, d]) = self.bytes.first_chunk::<HEAD>().copied() else {
            return;
        };
        let size = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        let received = self.bytes.split_off(HEAD);
        self.bytes.clear();
        self.skipped = Some((size, size));
        self.push(&received);
    }

    /// Returns the size of the frame that was skipped once all of it has come, and its header and route as far as they are known.
    pub fn take_skipped(&mut self) -> Option<(usize, Option<Message>)> {
        let (size, _) = self.skipped.take_if(|(_, left)| *left == 0)?;
        let next = self.bytes.split_off(KEPT_OF_SKIPPED.min(size));
        let kept = std::mem::replace(&mut self.bytes, next);
        Some((size, decode_head(&kept)))
    }

    /// Reports whether a frame is being skipped.
    pub fn is_skipping(&self) -> bool {
        self.skipped.is_some()
    }

    /// Returns the next message and the size of its frame, if it is complete.
    ///
    /// # Errors
    /// The stream holds something else; nothing after it can be read.
    pub fn take(&mut self) -> Result<Option<(Message, usize)>, FrameError> {
        let Some(head) = self.bytes.first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let [a, b, c, d, kind, _, sizes @ ..] = *head;
        if [a, b, c, d] != VERSION || kind != MESSAGE {
            return Err(FrameError::Head);
        }
        let size = usize::try_from(u32::from_be_bytes(sizes)).unwrap_or(usize::MAX);
        if size > self.limit {
            return Err(FrameError::TooLarge {
                size,
                limit: self.limit,
            });
        }
        let Some(body) = self.bytes.get(HEAD..HEAD + size) else {
            return Ok(None);
        };
        let message = unpack(Packed::decode(body).map_err(FrameError::Malformed)?)?;
        self.bytes.drain(..HEAD + size);
        Ok(Some((message, HEAD + size)))
    }
}

/// Reads the header and the route from the first bytes of a packed message.
fn decode_head(beginning: &[u8]) -> Option<Message> {
    let mut rest = beginning;
    while let (Some(&tag @ (0x0a | 0x12)), Some(mut after)) = (rest.first(), rest.get(1..)) {
        let length = usize::try_from(prost::encoding::decode_varint(&mut after).ok()?).ok()?;
        rest = after.get(length..)?;
        if tag == 0x12 {
            break;
        }
    }
    let head = beginning.get(..beginning.len() - rest.len())?;
    let packed = Packed::decode(head).ok()?;
    packed
        .router
        .is_some()
        .then(|| {
            unpack(Packed {
                content: b"null".to_vec(),
                ..packed
            })
            .ok()
        })
        .flatten()
}

fn unpack(packed: Packed) -> Result<Message, FrameError> {
    let (header, router) = (
        packed.header.unwrap_or_default(),
        packed.router.unwrap_or_default(),
    );
    let header = Header {
        msg_id: header.id,
        parent_msg_id: header.parent_id,
        timestamp: header.timestamp,
        sync: header.sync,
        resource_version: header.resource_version,
        ..Header::default()
    };
    let route = Route {
        source: router.source.into(),
        group: router.group.into(),
        operation: router.operation.into(),
        resource: router.resource.into(),
        ..Route::default()
    };
    Ok(Message {
        header,
        route,
        content: content(packed.content)?,
    })
}

/// Parses content: objects, lists and `null` are JSON; everything else is text, including numbers, which may be a payload's text.
fn content(bytes: Vec<u8>) -> Result<Value, FrameError> {
    match serde_json::from_slice(&bytes) {
        Ok(value @ (Value::Object(_) | Value::Array(_) | Value::Null)) => Ok(value),
        _ => String::from_utf8(bytes)
            .map(Value::String)
            .map_err(|_| FrameError::Content),
    }
}

#[cfg(test)]
mod tests;
