//! Decodes frames from bytes as they arrive, and encodes frames.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::Error;

/// The id of a stream: odd if the client opened it, even if the server did.
pub type StreamId = u32;

/// The largest payload of a control frame, bytes.
pub const MAX_CONTROL: usize = 64 * 1024;
/// The largest payload of a DATA frame that is written, bytes.
const MAX_DATA: usize = 32 * 1024;
/// The size of a frame's header, bytes.
const HEAD: usize = 8;
/// The flag of a sender's last frame of a stream.
const FIN: u8 = 1;
/// The other flag of a `SYN_STREAM`: the peer sends nothing.
const UNIDIRECTIONAL: u8 = 2;
/// The first 16 bits of every control frame: version 3.
const CONTROL: u16 = 0x8003;
/// The bits of a stream id.
const ID: u32 = 0x7fff_ffff;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const SETTINGS: u16 = 4;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;
const WINDOW_UPDATE: u16 = 9;

/// Why a stream is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The peer violated the protocol.
    ProtocolError,
    /// There is no such stream.
    InvalidStream,
    /// The stream was refused before anything was done with it.
    RefusedStream,
    /// The stream is no longer wanted; the usual end of a stream.
    Cancel,
    /// Something else failed.
    InternalError,
    /// Any other code.
    Other(u32),
}

impl Status {
    fn number(self) -> u32 {
        match self {
            Self::ProtocolError => 1,
            Self::InvalidStream => 2,
            Self::RefusedStream => 3,
            Self::Cancel => 5,
            Self::InternalError => 6,
            Self::Other(number) => number,
        }
    }

    fn of(number: u32) -> Self {
        match number {
            1 => Self::ProtocolError,
            2 => Self::InvalidStream,
            3 => Self::RefusedStream,
            5 => Self::Cancel,
            6 => Self::InternalError,
            other => Self::Other(other),
        }
    }
}

/// A decoded frame: control frames are complete, DATA comes in parts as it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    SynStream {
        id: StreamId,
        fin: bool,
        unidirectional: bool,
        block: Bytes,
    },
    SynReply {
        id: StreamId,
        fin: bool,
        block: Bytes,
    },
    RstStream {
        id: StreamId,
        status: Status,
    },
    Ping(u32),
    GoAway,
    Headers {
        id: StreamId,
        fin: bool,
        block: Bytes,
    },
    Data {
        id: StreamId,
        bytes: Bytes,
        fin: bool,
    },
    /// SETTINGS and `WINDOW_UPDATE`, which are ignored.
    Ignored,
}

/// A DATA frame whose rest is still to come.
#[derive(Debug)]
struct Partial {
    id: StreamId,
    left: usize,
    fin: bool,
}

/// Decodes frames from bytes.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    partial: Option<Partial>,
}

impl Decoder {
    /// Returns the next frame or part of one; `None` if more bytes are needed.
    pub(crate) fn next(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, Error> {
        if let Some(partial) = self.partial.take() {
            return Ok(self.part(partial, input));
        }
        let Some((mut head, _)) = input.split_at_checked(HEAD) else {
            return Ok(None);
        };
        let word = head.get_u32();
        let rest = head.get_u32();
        let flags = rest.to_be_bytes()[0];
        let length = (rest & 0x00ff_ffff) as usize;
        if word & !ID == 0 {
            if word == 0 {
                return Err(Error::StreamZero(0));
            }
            input.advance(HEAD);
            return Ok(self.part(
                Partial {
                    id: word,
                    left: length,
                    fin: flags & FIN != 0,
                },
                input,
            ));
        }
        if length > MAX_CONTROL {
            return Err(Error::TooLong(length));
        }
        if input.len() < HEAD + length {
            return Ok(None);
        }
        input.advance(HEAD);
        let payload = input.split_to(length).freeze();
        // the low 16 bits are the type; the version above them is not checked
        control((word & 0xffff) as u16, flags, payload).map(Some)
    }

    /// Returns the available part of a DATA frame.
    fn part(&mut self, partial: Partial, input: &mut BytesMut) -> Option<Frame> {
        let Partial { id, left, fin } = partial;
        let now = left.min(input.len());
        if now < left {
            self.partial = Some(Partial {
                id,
                left: left - now,
                fin,
            });
            if now == 0 {
                return None;
            }
        }
        let bytes = input.split_to(now).freeze();
        Some(Frame::Data {
            id,
            bytes,
            fin: fin && now == left,
        })
    }
}

fn control(kind: u16, flags: u8, mut payload: Bytes) -> Result<Frame, Error> {
    let fin = flags & FIN != 0;
    let about = |payload: &mut Bytes| match payload.try_get_u32().map(|id| id & ID) {
        Ok(0) => Err(Error::StreamZero(kind)),
        Ok(id) => Ok(id),
        Err(_) => Err(Error::Length(kind)),
    };
    let number = |payload: &mut Bytes| payload.try_get_u32().map_err(|_| Error::Length(kind));
    Ok(match kind {
        SYN_STREAM => {
            let id = about(&mut payload)?;
            // associated stream, priority and slot
            if payload.len() < 6 {
                return Err(Error::Length(kind));
            }
            payload.advance(6);
            Frame::SynStream {
                id,
                fin,
                unidirectional: flags & UNIDIRECTIONAL != 0,
                block: payload,
            }
        }
        SYN_REPLY => Frame::SynReply {
            id: about(&mut payload)?,
            fin,
            block: payload,
        },
        RST_STREAM => {
            let id = about(&mut payload)?;
            Frame::RstStream {
                id,
                status: Status::of(number(&mut payload)?),
            }
        }
        SETTINGS | WINDOW_UPDATE => Frame::Ignored,
        PING => Frame::Ping(number(&mut payload)?),
        GOAWAY => Frame::GoAway,
        HEADERS => Frame::Headers {
            id: about(&mut payload)?,
            fin,
            block: payload,
        },
        other => return Err(Error::UnknownType(other)),
    })
}

fn head(out: &mut BytesMut, kind: u16, flags: u8, length: usize) {
    out.reserve(HEAD + length);
    out.put_u16(CONTROL);
    out.put_u16(kind);
    out.put_u8(flags);
    out.put_uint(length as u64, 3);
}

fn flag(fin: bool) -> u8 {
    if fin { FIN } else { 0 }
}

pub(crate) fn syn_stream(out: &mut BytesMut, id: StreamId, fin: bool, block: &[u8]) {
    head(out, SYN_STREAM, flag(fin), 10 + block.len());
    out.put_u32(id);
    // no associated stream, priority 0, slot 0
    out.put_u32(0);
    out.put_u16(0);
    out.put_slice(block);
}

pub(crate) fn syn_reply(out: &mut BytesMut, id: StreamId, block: &[u8]) {
    head(out, SYN_REPLY, 0, 4 + block.len());
    out.put_u32(id);
    out.put_slice(block);
}

pub(crate) fn rst_stream(out: &mut BytesMut, id: StreamId, status: Status) {
    head(out, RST_STREAM, 0, 8);
    out.put_u32(id);
    out.put_u32(status.number());
}

pub(crate) fn ping(out: &mut BytesMut, id: u32) {
    head(out, PING, 0, 4);
    out.put_u32(id);
}

pub(crate) fn go_away(out: &mut BytesMut, last: StreamId) {
    head(out, GOAWAY, 0, 8);
    out.put_u32(last);
    out.put_u32(0);
}

/// Encodes bytes as one DATA frame, or as several if there are many bytes.
pub(crate) fn data(out: &mut BytesMut, id: StreamId, mut bytes: &[u8], fin: bool) {
    loop {
        let (now, rest) = bytes.split_at(bytes.len().min(MAX_DATA));
        bytes = rest;
        out.reserve(HEAD + now.len());
        out.put_u32(id);
        out.put_u8(flag(fin && rest.is_empty()));
        out.put_uint(now.len() as u64, 3);
        out.put_slice(now);
        if rest.is_empty() {
            return;
        }
    }
}
