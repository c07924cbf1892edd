//! SPDY/3.1 as Kubernetes' streaming requests (exec, attach, port-forward) speak it, which is as its only other implementation does,
//! moby/spdystream: no windows, no priorities, one zlib stream in each direction.
//!
//! [`Connection`] is the protocol without IO: bytes and intentions go in, bytes and [`Event`]s come out. The `tokio` feature adds the
//! module `session`, where each stream is read and written by itself.
//!
//! Everything that a peer can make larger has a bound: control frames, header blocks before and after inflation, headers of a block,
//! streams of a connection. DATA frames, whose length may be 16 MiB, are passed on as their bytes arrive.

mod compress;
mod connection;
mod frame;
mod headers;
#[cfg(feature = "tokio")]
pub mod session;

pub use self::{
    connection::{Connection, Event, MAX_STREAMS, Role, SendError},
    frame::{MAX_CONTROL, Status, StreamId},
    headers::{Headers, MAX_BLOCK, MAX_HEADERS},
};

/// Why a connection cannot go on: the peer does not speak the protocol, or exceeds a bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A control frame is longer than [`MAX_CONTROL`].
    #[error("a control frame of {0} bytes is too long")]
    TooLong(usize),
    /// A control frame whose type is not one of SPDY/3.1's, or that nobody sends.
    #[error("a control frame of the unknown type {0}")]
    UnknownType(u16),
    /// A control frame is shorter or longer than its type says.
    #[error("a control frame of type {0} has a wrong length")]
    Length(u16),
    /// Stream 0 in a frame that is about a stream.
    #[error("a frame of type {0} is about stream 0")]
    StreamZero(u16),
    /// A header block cannot be inflated. Nothing after it can be read either.
    #[error("a header block cannot be inflated")]
    Inflate,
    /// A header block is larger than [`MAX_BLOCK`] when inflated.
    #[error("a header block is too large")]
    BlockTooLarge,
    /// A header block has more than [`MAX_HEADERS`] headers.
    #[error("a header block has {0} headers")]
    TooManyHeaders(u32),
    /// A header block does not hold what it says.
    #[error("a header block is damaged")]
    Block,
}

#[cfg(test)]
mod tests;
