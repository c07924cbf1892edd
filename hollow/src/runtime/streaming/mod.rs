//! The streaming server: CRI's Exec, Attach and `PortForward` return URLs of it, at which clients use SPDY/3.1 or WebSocket, as with
//! containerd.
//!
//! Each runtime has one, on a free port of 127.0.0.1, from the first such call on. A URL is valid for one request and for a minute;
//! its token is the only authentication.

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

/// Returns a URL at which this request is served once. The server starts with the first one.
pub(super) fn url(core: &Arc<Core>, request: StreamRequest) -> Result<String, Status> {
    let weak = Arc::downgrade(core);
    core.streaming.url(request, |listener, end| {
        drop(tokio::spawn(server::run(listener, weak, end)))
    })
}
