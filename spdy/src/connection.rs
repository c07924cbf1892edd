//! The state of one connection, without IO.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

use crate::{
    Error,
    compress::{Deflater, Inflater},
    frame::{self, Decoder, Frame, Status, StreamId},
    headers::Headers,
};

/// The most streams of one connection at a time. An exec has five; each connection of a port-forward has two.
pub const MAX_STREAMS: usize = 1024;

/// The end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The end that dialled; its streams have odd ids.
    Client,
    /// The end that accepted; its streams have even ids.
    Server,
}

/// An action of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It opens a stream. The stream must be answered at once, with [`Connection::reply`] or [`Connection::reset`]: clients open streams
    /// one after the other, and wait for each.
    Opened {
        /// The stream.
        id: StreamId,
        /// The stream's headers.
        headers: Headers,
        /// Whether the peer will send nothing on it.
        fin: bool,
        /// Whether the peer expects nothing on it.
        unidirectional: bool,
    },
    /// It accepts a stream of this end.
    Accepted {
        /// The stream.
        id: StreamId,
        /// Whether it will send nothing on it.
        fin: bool,
    },
    /// It sends bytes on a stream.
    Data {
        /// The stream.
        id: StreamId,
        /// Part of a frame, or all of it; empty only with `fin`.
        bytes: Bytes,
        /// Whether these are the last bytes of the stream.
        fin: bool,
    },
    /// It ends a stream in both directions. After data this is a normal end.
    Reset {
        /// The stream.
        id: StreamId,
        /// The reason.
        status: Status,
    },
    /// It answers [`Connection::ping`].
    Pong(u32),
    /// It closes the connection and sends nothing more.
    GoAway,
}

/// Why something cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The stream has ended, or its sending half has.
    #[error("the stream has ended")]
    Ended,
    /// There are [`MAX_STREAMS`] streams, all ids are used, or one end has closed the connection to new streams.
    #[error("no further stream can be opened")]
    NoMoreStreams,
    /// The headers exceed the limits of a block.
    #[error("the headers are too large")]
    Headers,
}

#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Whether this end sends nothing more.
    local_closed: bool,
    /// Whether the peer sends nothing more.
    remote_closed: bool,
    replied: bool,
}

/// The state of a connection.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    decoder: Decoder,
    inflater: Inflater,
    deflater: Deflater,
    pub(crate) streams: BTreeMap<StreamId, Stream>,
    next: StreamId,
    /// The peer's newest stream.
    last: StreamId,
    next_ping: u32,
    sent_go_away: bool,
    received_go_away: bool,
    output: BytesMut,
}

impl Connection {
    /// Creates the state of a new connection.
    pub fn new(role: Role) -> Self {
        let first = match role {
            Role::Client => 1,
            Role::Server => 2,
        };
        Self {
            role,
            decoder: Decoder::default(),
            inflater: Inflater::new(),
            deflater: Deflater::new(),
            streams: BTreeMap::new(),
            next: first,
            last: 0,
            next_ping: first,
            sent_go_away: false,
            received_go_away: false,
            output: BytesMut::new(),
        }
    }

    /// Opens a stream. With `fin`, only the peer sends on it.
    ///
    /// # Errors
    /// No further stream is possible, or the headers are too large.
    pub fn open(&mut self, headers: &Headers, fin: bool) -> Result<StreamId, SendError> {
        if self.sent_go_away || self.received_go_away || self.streams.len() >= MAX_STREAMS {
            return Err(SendError::NoMoreStreams);
        }
        let id = self.next;
        if id > 0x7fff_ffff {
            return Err(SendError::NoMoreStreams);
        }
        let block = self
            .deflater
            .block(&headers.encode())
            .map_err(|_| SendError::Headers)?;
        self.next = id.saturating_add(2);
        frame::syn_stream(&mut self.output, id, fin, &block);
        self.streams.insert(
            id,
            Stream {
                local_closed: fin,
                ..Stream::default()
            },
        );
        Ok(id)
    }

    /// Accepts a stream of the peer.
    ///
    /// # Errors
    /// The stream has ended, or was accepted before.
    pub fn reply(&mut self, id: StreamId) -> Result<(), SendError> {
        let stream = self
            .streams
            .get_mut(&id)
            .filter(|stream| !stream.replied)
            .ok_or(SendError::Ended)?;
        stream.replied = true;
        let block = self
            .deflater
            .block(&Headers::new().encode())
            .map_err(|_| SendError::Headers)?;
        frame::syn_reply(&mut self.output, id, &block);
        Ok(())
    }

    /// Sends bytes on a stream; with `fin` they are the last ones.
    ///
    /// # Errors
    /// The sending half has ended.
    pub fn send(&mut self, id: StreamId, bytes: &[u8], fin: bool) -> Result<(), SendError> {
        let stream = self
            .streams
            .get_mut(&id)
            .filter(|stream| !stream.local_closed);
        let stream = stream.ok_or(SendError::Ended)?;
        stream.local_closed = fin;
        let is_over = fin && stream.remote_closed;
        frame::data(&mut self.output, id, bytes, fin);
        if is_over {
            self.streams.remove(&id);
        }
        Ok(())
    }

    /// Ends a stream in both directions; a stream that has ended stays so.
    pub fn reset(&mut self, id: StreamId, status: Status) {
        if self.streams.remove(&id).is_some() {
            frame::rst_stream(&mut self.output, id, status);
        }
    }

    /// Sends a ping; its number comes back in [`Event::Pong`].
    pub fn ping(&mut self) -> u32 {
        let id = self.next_ping;
        self.next_ping = id.wrapping_add(2);
        frame::ping(&mut self.output, id);
        id
    }

    /// Ends all streams and announces that nothing follows.
    pub fn go_away(&mut self) {
        while let Some((id, _)) = self.streams.pop_first() {
            frame::rst_stream(&mut self.output, id, Status::Cancel);
        }
        if !self.sent_go_away {
            self.sent_go_away = true;
            frame::go_away(&mut self.output, self.last);
        }
    }

    /// Takes the bytes to be written; the caller must write them.
    pub fn take_output(&mut self) -> Bytes {
        self.output.split().freeze()
    }

    /// Returns the number of bytes to be written.
    pub fn output_len(&self) -> usize {
        self.output.len()
    }

    /// Returns the number of streams that have not ended in both directions.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Reads from the beginning of `input` until there is an event. `None` means that more bytes are needed, or that nothing is read any
    /// more because the peer has closed the connection.
    ///
    /// # Errors
    /// The peer violates the protocol or exceeds a limit; the connection cannot continue.
    pub fn receive(&mut self, input: &mut BytesMut) -> Result<Option<Event>, Error> {
        while !self.received_go_away {
            let Some(frame) = self.decoder.next(input)? else {
                return Ok(None);
            };
            if let Some(event) = self.frame(frame)? {
                return Ok(Some(event));
            }
        }
        input.clear();
        Ok(None)
    }

    fn frame(&mut self, frame: Frame) -> Result<Option<Event>, Error> {
        match frame {
            Frame::SynStream {
                id,
                fin,
                unidirectional,
                block,
            } => {
                let headers = self.headers(&block)?;
                Ok(self.open_remote(id, headers, fin, unidirectional))
            }
            Frame::SynReply { id, fin, block } => {
                self.headers(&block)?;
                Ok(self.handle_reply(id, fin))
            }
            Frame::Headers { id, fin, block } => {
                self.headers(&block)?;
                Ok(if fin {
                    self.data(id, Bytes::new(), true)
                } else {
                    None
                })
            }
            Frame::RstStream { id, status } => Ok(self
                .streams
                .remove(&id)
                .map(|_| Event::Reset { id, status })),
            Frame::Ping(id) if self.is_ours(id) => Ok(Some(Event::Pong(id))),
            Frame::Ping(id) => {
                frame::ping(&mut self.output, id);
                Ok(None)
            }
            Frame::GoAway => {
                self.received_go_away = true;
                Ok(Some(Event::GoAway))
            }
            Frame::Data { id, bytes, fin } => Ok(self.data(id, bytes, fin)),
            Frame::Ignored => Ok(None),
        }
    }

    /// Decodes the headers of a block. Every block must be inflated, because the compression spans all of them.
    fn headers(&mut self, block: &[u8]) -> Result<Headers, Error> {
        Headers::decode(&self.inflater.block(block)?)
    }

    fn is_ours(&self, id: u32) -> bool {
        (id % 2 == 1) == (self.role == Role::Client)
    }

    fn open_remote(
        &mut self,
        id: StreamId,
        headers: Headers,
        fin: bool,
        unidirectional: bool,
    ) -> Option<Event> {
        if self.is_ours(id) || id <= self.last {
            frame::rst_stream(&mut self.output, id, Status::ProtocolError);
            return None;
        }
        self.last = id;
        if self.sent_go_away || self.streams.len() >= MAX_STREAMS {
            frame::rst_stream(&mut self.output, id, Status::RefusedStream);
            return None;
        }
        let stream = Stream {
            local_closed: unidirectional,
            remote_closed: fin,
            replied: false,
        };
        self.streams.insert(id, stream);
        Some(Event::Opened {
            id,
            headers,
            fin,
            unidirectional,
        })
    }

    fn handle_reply(&mut self, id: StreamId, fin: bool) -> Option<Event> {
        let is_ours = self.is_ours(id);
        let stream = self
            .streams
            .get_mut(&id)
            .filter(|stream| is_ours && !stream.replied)?;
        stream.replied = true;
        stream.remote_closed |= fin;
        if stream.local_closed && stream.remote_closed {
            self.streams.remove(&id);
        }
        Some(Event::Accepted { id, fin })
    }

    /// Handles data; data of an unknown stream or after its end is dropped.
    fn data(&mut self, id: StreamId, bytes: Bytes, fin: bool) -> Option<Event> {
        let stream = self
            .streams
            .get_mut(&id)
            .filter(|stream| !stream.remote_closed)?;
        stream.remote_closed = fin;
        if fin && stream.local_closed {
            self.streams.remove(&id);
        }
        (fin || !bytes.is_empty()).then_some(Event::Data { id, bytes, fin })
    }
}
