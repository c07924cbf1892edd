//! Either end of KubeEdge's protocol. [`edge`] reaches any cloud as edges do, [`cloud`] has the servers of a cloud that any edge can join.
//!
//! This crate uses neither the hub of `cloudsim` nor that of the agent: its users test these programs, and record and replay their
//! sessions.

pub mod cloud;
pub mod edge;
mod failure;
pub mod https;
pub mod identity;
pub mod quic;
pub mod session;
pub mod transport;
pub mod tunnel;

use std::time::{Duration, UNIX_EPOCH};

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;

pub use self::failure::Failure;

/// The largest message that is read, bytes.
pub const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// A connection after the upgrade to WebSocket: bytes of frames.
pub type Stream = TokioIo<Upgraded>;

/// A server of a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// The HTTPS server: the CA, and certificates.
    Https,
    /// `CloudHub`: sessions over WebSocket.
    Hub,
    /// Stream tunnels.
    Tunnel,
}

/// Returns the time in milliseconds since the Unix epoch, as messages have it.
pub fn now_ms() -> i64 {
    let since = clock::system_now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or(Duration::ZERO).as_millis()).unwrap_or(i64::MAX)
}
