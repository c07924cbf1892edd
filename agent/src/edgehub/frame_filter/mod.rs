//! Cuts messages that are too large out of a WebSocket stream before they are in memory, so that one of them does not end the
//! connection: of each, a short binary frame with its first bytes is left, and a note that it was cut.
//!
//! Source: RFC 6455, section 5.2. The stream may begin with the response to the upgrade, which passes.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes of a cut message that are left: enough for its header and route.
const PREFIX_BYTES: usize = 4 * 1024;
/// The last bytes of a cut message that are left as well: what compression of later messages refers to.
const SUFFIX_BYTES: usize = wire::compression::REMEMBERED;
/// The bytes read at a time.
const READ_BYTES: usize = 8 * 1024;
/// The longest head of a response that is searched for its end.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// The beginning of a response that switches protocols.
const SWITCHING: &[u8] = b"HTTP/1.1 101";
/// The end of the head of an HTTP response.
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

const FIN: u8 = 0x80;
const BINARY: u8 = 2;

/// A message that was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CutMessage {
    /// Its size, bytes; of a message in several frames, as far as it was counted.
    pub(super) size: u64,
    /// Whether it was a text.
    pub(super) is_text: bool,
    /// The place among the data messages of the connection.
    number: u64,
}

/// The messages that were cut and not read yet, for the reader of messages; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct CutMessages(Arc<Mutex<VecDeque<CutMessage>>>);

impl CutMessages {
    /// Takes the note about the data message with this number, if it was cut.
    pub(super) fn take(&self, number: u64) -> Option<CutMessage> {
        let mut all = self.0.lock();
        all.front()
            .is_some_and(|cut| cut.number == number)
            .then(|| all.pop_front())
            .flatten()
    }
}

/// The limits of messages, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageLimits {
    /// A larger message is cut.
    pub(super) accepted: u64,
    /// An even larger message passes, so that the reader ends the connection.
    pub(super) skipped: u64,
}

impl MessageLimits {
    /// Returns the limits for messages of at most `accepted` bytes.
    pub(super) fn of(accepted: usize) -> Self {
        let accepted = u64::try_from(accepted).unwrap_or(u64::MAX);
        Self {
            accepted,
            skipped: accepted.saturating_mul(4),
        }
    }
}

/// Where in the stream the filter is.
#[derive(Debug)]
enum Place {
    /// In the head of the response to the upgrade.
    Response(Vec<u8>),
    /// Everything passes: the upgrade was refused.
    Open,
    /// In the header of a frame.
    Header(Vec<u8>),
    /// In a payload that passes.
    Passed(u64),
    /// In a payload that is dropped.
    Dropped(u64),
    /// In the payload of a message that is cut.
    Cut(CutFrame),
}

/// The frame of a message that is cut: what is left of it, and what is to come.
#[derive(Debug)]
struct CutFrame {
    prefix: Vec<u8>,
    suffix: VecDeque<u8>,
    left: u64,
}

/// The filter, without IO.
#[derive(Debug)]
pub(super) struct FrameFilter {
    limits: MessageLimits,
    cut: CutMessages,
    place: Place,
    /// The data messages that have begun.
    begun: u64,
    /// The bytes of the present message that have passed.
    passed: u64,
    /// Whether the other frames of the present message are dropped.
    is_dropping: bool,
}

impl FrameFilter {
    /// Makes a filter for a stream that begins with frames.
    pub(super) fn new(limits: MessageLimits, cut: CutMessages) -> Self {
        let place = Place::Header(Vec::new());
        Self {
            limits,
            cut,
            place,
            begun: 0,
            passed: 0,
            is_dropping: false,
        }
    }

    /// Makes a filter for a stream that begins with the response to an upgrade.
    pub(super) fn after_response(limits: MessageLimits, cut: CutMessages) -> Self {
        Self {
            place: Place::Response(Vec::new()),
            ..Self::new(limits, cut)
        }
    }

    /// Takes the next bytes of the stream, and appends what passes to `out`.
    pub(super) fn pass(&mut self, mut input: &[u8], out: &mut Vec<u8>) {
        while let Some((&first, rest)) = input.split_first() {
            match &mut self.place {
                Place::Open => {
                    out.extend_from_slice(input);
                    return;
                }
                Place::Response(head) => {
                    out.push(first);
                    head.push(first);
                    input = rest;
                    if let Some(place) = after_response(head) {
                        self.place = place;
                    }
                }
                Place::Header(header) => {
                    header.push(first);
                    input = rest;
                    if let Some(length) = payload_length(header) {
                        let header = std::mem::take(header);
                        self.begin_frame(&header, length, out);
                    }
                }
                Place::Passed(left) => {
                    let (passed, rest) = split(input, left);
                    out.extend_from_slice(passed);
                    input = rest;
                    if *left == 0 {
                        self.place = Place::Header(Vec::new());
                    }
                }
                Place::Dropped(left) => {
                    input = split(input, left).1;
                    if *left == 0 {
                        self.place = Place::Header(Vec::new());
                    }
                }
                Place::Cut(frame) => {
                    let (part, rest) = split(input, &mut frame.left);
                    frame.add(part);
                    input = rest;
                    if frame.left == 0 {
                        frame.write(out);
                        self.place = Place::Header(Vec::new());
                    }
                }
            }
        }
    }

    fn begin_frame(&mut self, header: &[u8], length: u64, out: &mut Vec<u8>) {
        let first = header.first().copied().unwrap_or_default();
        let (is_last, opcode) = (first & FIN != 0, first & 0x0f);
        if opcode > BINARY {
            // a control frame, also between those of a message
            return self.pass_frame(header, length, out);
        }
        if opcode == 0 && self.begun == 0 {
            // continues no message: the reader ends the connection
            return self.pass_frame(header, length, out);
        }
        if opcode != 0 {
            (self.begun, self.passed, self.is_dropping) = (self.begun + 1, 0, false);
        }
        if self.is_dropping {
            self.place = after(length, Place::Dropped(length));
            return;
        }
        let size = self.passed.saturating_add(length);
        if size <= self.limits.accepted || size > self.limits.skipped {
            self.passed = size;
            let mut header = header.to_vec();
            // what may be cut off later is no valid text any more
            if let (Some(first), false, true) = (header.first_mut(), is_last, opcode == 1) {
                *first = (*first & !0x0f) | BINARY;
            }
            return self.pass_frame(&header, length, out);
        }
        self.is_dropping = true;
        let cut = CutMessage {
            size,
            is_text: opcode == 1,
            number: self.begun - 1,
        };
        self.cut.0.lock().push_back(cut);
        if opcode == 0 {
            // an empty last frame ends what has passed
            out.extend_from_slice(&[FIN, 0]);
            self.place = after(length, Place::Dropped(length));
        } else {
            let frame = CutFrame {
                prefix: Vec::new(),
                suffix: VecDeque::new(),
                left: length,
            };
            self.place = Place::Cut(frame);
        }
    }

    fn pass_frame(&mut self, header: &[u8], length: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(header);
        self.place = after(length, Place::Passed(length));
    }
}

impl CutFrame {
    fn add(&mut self, part: &[u8]) {
        let room = PREFIX_BYTES
            .saturating_sub(self.prefix.len())
            .min(part.len());
        let (prefix, rest) = part.split_at(room);
        self.prefix.extend_from_slice(prefix);
        self.suffix
            .extend(&rest[rest.len().saturating_sub(SUFFIX_BYTES)..]);
        self.suffix
            .drain(..self.suffix.len().saturating_sub(SUFFIX_BYTES));
    }

    /// Writes a frame of what is left. A cut message is longer than 125 bytes, and what is left of it shorter than 64 KiB.
    fn write(&self, out: &mut Vec<u8>) {
        let length = u16::try_from(self.prefix.len() + self.suffix.len()).unwrap_or(u16::MAX);
        out.extend_from_slice(&[FIN | BINARY, 126]);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&self.prefix);
        out.extend(&self.suffix);
    }
}

/// Returns the place after the response to the upgrade, if it is complete: frames follow one that switches protocols, and nothing else.
fn after_response(head: &[u8]) -> Option<Place> {
    let is_refused = head.len() >= SWITCHING.len() && !head.starts_with(SWITCHING);
    if is_refused || head.len() > MAX_HEAD_BYTES {
        return Some(Place::Open);
    }
    head.ends_with(END_OF_HEAD)
        .then(|| Place::Header(Vec::new()))
}

/// Returns the place after a header: an empty payload ends at once.
fn after(length: u64, place: Place) -> Place {
    if length == 0 {
        Place::Header(Vec::new())
    } else {
        place
    }
}

/// Splits off the bytes that belong to a payload of which `left` bytes are to come.
fn split<'a>(input: &'a [u8], left: &mut u64) -> (&'a [u8], &'a [u8]) {
    let length = usize::try_from(*left)
        .unwrap_or(usize::MAX)
        .min(input.len());
    *left -= length as u64;
    input.split_at(length)
}

/// Returns the length of the payload, if the header is complete.
fn payload_length(header: &[u8]) -> Option<u64> {
    let second = *header.get(1)?;
    let mask = if second & 0x80 == 0 { 0 } else { 4 };
    let (length, end) = match second & 0x7f {
        126 => (
            u64::from(u16::from_be_bytes(header.get(2..4)?.try_into().ok()?)),
            4,
        ),
        127 => (u64::from_be_bytes(header.get(2..10)?.try_into().ok()?), 10),
        length => (u64::from(length), 2),
    };
    (header.len() >= end + mask).then_some(length)
}

/// A stream whose incoming frames pass the filter.
pub(super) struct Filtered<S> {
    stream: S,
    filter: FrameFilter,
    /// What has passed and was not read yet.
    ready: Vec<u8>,
    /// How much of it was read.
    read: usize,
}

impl<S> Filtered<S> {
    pub(super) fn new(stream: S, filter: FrameFilter) -> Self {
        Self {
            stream,
            filter,
            ready: Vec::new(),
            read: 0,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Filtered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self {
            stream,
            filter,
            ready,
            read,
        } = self.get_mut();
        while ready.len() == *read {
            ready.clear();
            *read = 0;
            let mut bytes = [0; READ_BYTES];
            let mut input = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut *stream).poll_read(cx, &mut input))?;
            if input.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            filter.pass(input.filled(), ready);
        }
        let rest = &ready[*read..];
        let part = &rest[..rest.len().min(buffer.remaining())];
        buffer.put_slice(part);
        *read += part.len();
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Filtered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
