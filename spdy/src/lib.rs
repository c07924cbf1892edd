//! SPDY/3.1 as Kubernetes' streaming requests (exec, attach, port-forward) use it, compatible with the only other implementation in use,
//! moby/spdystream: no windows, no priorities, one zlib stream in each direction.
//!
//! [`Connection`] is the protocol without IO: bytes and calls go in, bytes and [`Event`]s come out. The `tokio` feature adds the module
//! `session`, where each stream is read and written separately.
//!
//! Everything that a peer can enlarge is limited: control frames, header blocks before and after inflation, headers of a block, streams of
//! a connection. DATA frames, which may have 16 MiB, are passed on as their bytes arrive.

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

/// Why a connection cannot continue: the peer violates the protocol or exceeds a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A control frame is longer than [`MAX_CONTROL`].
    #[error("a control frame of {0} bytes is too long")]
    TooLong(usize),
    /// The type of a control frame is not one of SPDY/3.1's, or one that is never sent.
    #[error("a control frame of the unknown type {0}")]
    UnknownType(u16),
    /// A control frame's length does not match its type.
    #[error("a control frame of type {0} has a wrong length")]
    Length(u16),
    /// A frame that must be about a stream names stream 0.
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
    /// A header block's lengths do not match its contents.
    #[error("a header block is damaged")]
    Block,
}

#[cfg(test)]
mod tests;
