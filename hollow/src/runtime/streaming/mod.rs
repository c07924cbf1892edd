//! The streaming server: CRI's Exec, Attach and PortForward give URLs of it, at which clients speak SPDY/3.1 or WebSocket, as with
//! containerd.
//!
//! There is one in each runtime, on a free port of 127.0.0.1, from the first such call on. A URL is good for one request and a
//! minute; besides its token nobody is asked for a name.

mod command;
pub(super) mod endpoint;
mod ports;
mod request;
mod server;
mod spdy_streams;
mod tokens;
mod websocket;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use tonic::Status;

pub(super) use self::request::StreamRequest;
use super::core::Core;

/// A URL at which this is served once. The server starts with the first one.
pub(super) fn url(core: &Arc<Core>, request: StreamRequest) -> Result<String, Status> {
    let weak = Arc::downgrade(core);
    core.streaming.url(request, |listener, end| drop(tokio::spawn(server::run(listener, weak, end))))
}
