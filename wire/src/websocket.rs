//! WebSocket frames (RFC 6455, section 5), without IO. The stream tunnel sends arbitrary bytes in *text* messages. Libraries reject these,
//! as the RFC demands, so this codec does not validate text.
//!
//! Everything else is as strict as the RFC: masks, reserved bits, control frames and fragments.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The largest payload of a control frame, bytes.
const MAX_CONTROL: usize = 125;
/// The longest header of a frame, bytes.
const MAX_HEAD: usize = 14;
/// The bytes of one read between two frames, and within one.
const IDLE_READ: usize = 1 << 10;
const READ: usize = 16 << 10;

/// The end of the connection; a client masks what it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The end that opened the connection.
    Client,
    /// The end that accepted the connection.
    Server,
}

/// A message, or a control frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A text message, whose bytes are not validated.
    Text(Bytes),
    /// A binary message.
    Binary(Bytes),
    /// A ping, to be answered with a pong of the same payload.
    Ping(Bytes),
    /// The answer to a ping.
    Pong(Bytes),
    /// A close frame with an optional code and reason.
    Close(Bytes),
}

/// The peer violates the protocol or exceeds the limit; the connection cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A message exceeds the limit.
    #[error("a message of more than {0} bytes")]
    TooLarge(usize),
    /// Reserved bits are set.
    #[error("reserved bits of a frame are set")]
    Reserved,
    /// The opcode is unknown.
    #[error("a frame of the unknown operation {0}")]
    Operation(u8),
    /// A client's frame is not masked, or a server's is.
    #[error("the masking of a frame is wrong for its direction")]
    Mask,
    /// A control frame is too long or fragmented.
    #[error("a control frame is too long or in fragments")]
    Control,
    /// A continuation continues nothing, or a message begins within another one.
    #[error("fragments of a message are out of order")]
    Fragment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Data {
    Text,
    Binary,
}

impl Data {
    fn message(self, payload: Bytes) -> Message {
        match self {
            Self::Text => Message::Text(payload),
            Self::Binary => Message::Binary(payload),
        }
    }
}

/// The header of a frame.
struct Head {
    fin: bool,
    operation: u8,
    mask: Option<[u8; 4]>,
    length: usize,
    /// The size of the header itself, bytes.
    size: usize,
}

/// Decodes messages from bytes as they arrive.
#[derive(Debug)]
pub struct Decoder {
    role: Role,
    limit: usize,
    partial: Option<(Data, BytesMut)>,
}

impl Decoder {
    /// Creates a decoder for the messages that arrive at this end, of at most `limit` bytes each.
    pub fn new(role: Role, limit: usize) -> Self {
        Self {
            role,
            limit,
            partial: None,
        }
    }

    /// Returns the next message; `None` if more bytes are needed.
    ///
    /// # Errors
    /// The peer violates the protocol, or the message's header announces too large a message.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Option<Message>, Error> {
        while let Some(head) = self.head(input)? {
            if input.len() < head.size + head.length {
                return Ok(None);
            }
            input.advance(head.size);
            let mut payload = input.split_to(head.length);
            if let Some(mask) = head.mask {
                apply(&mut payload, mask);
            }
            if let Some(message) = self.frame(&head, payload)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    fn head(&self, input: &BytesMut) -> Result<Option<Head>, Error> {
        let mut rest = &input[..];
        if rest.len() < 2 {
            return Ok(None);
        }
        let (first, second) = (rest.get_u8(), rest.get_u8());
        if first & 0x70 != 0 {
            return Err(Error::Reserved);
        }
        let operation = first & 0x0f;
        let fin = first & 0x80 != 0;
        let is_masked = second & 0x80 != 0;
        if is_masked != (self.role == Role::Server) {
            return Err(Error::Mask);
        }
        let short = second & 0x7f;
        let is_control = operation >= 8;
        if is_control && (!fin || usize::from(short) > MAX_CONTROL) {
            return Err(Error::Control);
        }
        let length = match short {
            126 => rest.try_get_u16().map(u64::from),
            127 => rest.try_get_u64(),
            short => Ok(u64::from(short)),
        };
        let Ok(length) = length else { return Ok(None) };
        let held = self.partial.as_ref().map_or(0, |(_, held)| held.len());
        let length = usize::try_from(length).ok().filter(|length| {
            is_control
                || held
                    .checked_add(*length)
                    .is_some_and(|all| all <= self.limit)
        });
        let length = length.ok_or(Error::TooLarge(self.limit))?;
        let mask = match rest.split_first_chunk::<4>() {
            Some((mask, after)) if is_masked => {
                rest = after;
                Some(*mask)
            }
            None if is_masked => return Ok(None),
            _ => None,
        };
        Ok(Some(Head {
            fin,
            operation,
            mask,
            length,
            size: input.len() - rest.len(),
        }))
    }

    fn frame(&mut self, head: &Head, payload: BytesMut) -> Result<Option<Message>, Error> {
        let kind = match head.operation {
            0 => {
                let (kind, mut whole) = self.partial.take().ok_or(Error::Fragment)?;
                whole.extend_from_slice(&payload);
                if head.fin {
                    return Ok(Some(kind.message(whole.freeze())));
                }
                self.partial = Some((kind, whole));
                return Ok(None);
            }
            1 => Data::Text,
            2 => Data::Binary,
            8 => return Ok(Some(Message::Close(payload.freeze()))),
            9 => return Ok(Some(Message::Ping(payload.freeze()))),
            10 => return Ok(Some(Message::Pong(payload.freeze()))),
            other => return Err(Error::Operation(other)),
        };
        if self.partial.is_some() {
            return Err(Error::Fragment);
        }
        if head.fin {
            return Ok(Some(kind.message(payload.freeze())));
        }
        self.partial = Some((kind, payload));
        Ok(None)
    }
}

/// Makes room for the next read of a connection, whose input so far was decoded. An idle connection holds little memory.
pub fn reserve_for_read(input: &mut BytesMut) {
    if input.is_empty() {
        *input = BytesMut::with_capacity(IDLE_READ);
    } else {
        input.reserve(READ);
    }
}

/// Encodes a message as one frame. A client passes a random `mask`, a server none. Control frames are truncated to the size that they may
/// have.
pub fn encode(out: &mut BytesMut, message: &Message, mask: Option<[u8; 4]>) {
    let control = |payload: &Bytes| payload.slice(..payload.len().min(MAX_CONTROL));
    let (operation, payload) = match message {
        Message::Text(payload) => (1, payload.clone()),
        Message::Binary(payload) => (2, payload.clone()),
        Message::Close(payload) => (8, control(payload)),
        Message::Ping(payload) => (9, control(payload)),
        Message::Pong(payload) => (10, control(payload)),
    };
    out.reserve(MAX_HEAD + payload.len());
    out.put_u8(0x80 | operation);
    let masked = if mask.is_some() { 0x80 } else { 0 };
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length), _) if length < 126 => out.put_u8(masked | length),
        (_, Ok(length)) => {
            out.put_u8(masked | 126);
            out.put_u16(length);
        }
        _ => {
            out.put_u8(masked | 127);
            out.put_u64(payload.len() as u64);
        }
    }
    if let Some(mask) = mask {
        out.put_slice(&mask);
    }
    let begin = out.len();
    out.put_slice(&payload);
    if let Some(mask) = mask {
        apply(&mut out[begin..], mask);
    }
}

/// Returns a server's answer to a client's `Sec-WebSocket-Key`.
pub fn accept_key(key: &str) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    /// The GUID of RFC 6455, section 1.3.
    const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let digest = ring::digest::digest(
        &ring::digest::SHA1_FOR_LEGACY_USE_ONLY,
        format!("{}{GUID}", key.trim()).as_bytes(),
    );
    STANDARD.encode(digest)
}

fn apply(payload: &mut [u8], mask: [u8; 4]) {
    for (byte, mask) in payload.iter_mut().zip(mask.into_iter().cycle()) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(role: Role, bytes: &[u8]) -> Result<Vec<Message>, Error> {
        let mut decoder = Decoder::new(role, 1000);
        let (mut input, mut messages) = (BytesMut::from(bytes), Vec::new());
        while let Some(message) = decoder.next(&mut input)? {
            messages.push(message);
        }
        Ok(messages)
    }

    /// Decodes the examples of RFC 6455, section 5.7.
    #[test]
    fn the_rfcs_examples_are_read() {
        let hello = Bytes::from_static(b"Hello");
        let text = Message::Text(hello.clone());
        assert_eq!(
            all(Role::Client, &[0x81, 5, 0x48, 0x65, 0x6c, 0x6c, 0x6f]),
            Ok(vec![text.clone()])
        );
        let masked = [
            0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
        ];
        assert_eq!(all(Role::Server, &masked), Ok(vec![text.clone()]));
        let mut out = BytesMut::new();
        encode(&mut out, &text, Some([0x37, 0xfa, 0x21, 0x3d]));
        assert_eq!(out[..], masked);
        let fragments = [
            &[0x01, 3, 0x48, 0x65, 0x6c][..],
            &[0x89, 0],
            &[0x80, 2, 0x6c, 0x6f],
        ]
        .concat();
        assert_eq!(
            all(Role::Client, &fragments),
            Ok(vec![Message::Ping(Bytes::new()), text])
        );
        assert_eq!(
            accept_key("dGhlIHNhbXBsZSBub25jZQ=="),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }

    #[test]
    fn what_breaks_the_rules_is_refused() {
        for (bytes, error) in [
            (&[0xc1, 0][..], Error::Reserved),
            (&[0x83, 0], Error::Operation(3)),
            (&[0x81, 0x80, 0, 0, 0, 0], Error::Mask),
            (&[0x09, 0], Error::Control),
            (&[0x89, 126, 0, 126], Error::Control),
            (&[0x80, 0], Error::Fragment),
            (&[0x01, 0, 0x01, 0], Error::Fragment),
            (&[0x82, 126, 0x03, 0xe9], Error::TooLarge(1000)),
            (
                &[0x82, 127, 255, 255, 255, 255, 255, 255, 255, 255],
                Error::TooLarge(1000),
            ),
        ] {
            assert_eq!(all(Role::Client, bytes), Err(error), "{bytes:?}");
        }
        assert_eq!(all(Role::Server, &[0x81, 0]), Err(Error::Mask));
        // the limit applies to all fragments together
        let mut many = vec![0x02, 126, 0x03, 0xe8];
        many.extend([0; 1000]);
        many.extend([0x80, 1, 0]);
        assert_eq!(all(Role::Client, &many), Err(Error::TooLarge(1000)));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(payload: Vec<u8>, mask: Option<[u8; 4]>, length in 0_usize..70_000) {
            let payload = [payload, vec![7; length]].concat();
            let role = if mask.is_some() { Role::Server } else { Role::Client };
            let message = Message::Text(payload.into());
            let mut out = BytesMut::new();
            encode(&mut out, &message, mask);
            let mut decoder = Decoder::new(role, 100_000);
            let mut input = BytesMut::new();
            let last = out.split_off(out.len() - 1);
            input.extend_from_slice(&out);
            prop_assert_eq!(decoder.next(&mut input), Ok(None));
            input.extend_from_slice(&last);
            prop_assert_eq!(decoder.next(&mut input), Ok(Some(message)));
            prop_assert!(input.is_empty());
        }
    }
}
