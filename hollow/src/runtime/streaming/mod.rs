//! The streaming server: CRI's Exec, Attach and PortForward give URLs of it, at which clients speak SPDY/3.1 or WebSocket, as with
//! containerd.
//!
//! There is one in each runtime, on a free port of 127.0.0.1, from the first such call on. A URL is good for one request and a
//! minute; besides its token nobody is asked for a name.

mod command;
mod ports;
mod server;
mod spdy_streams;
mod tokens;
mod websocket;

#[cfg(test)]
mod tests;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Status;
use wire::cri::{AttachRequest, ExecRequest, PortForwardRequest};

use self::tokens::Tokens;
use super::core::Core;

/// What a URL is for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ask {
    Exec(ExecRequest),
    Attach(AttachRequest),
    PortForward(PortForwardRequest),
}

impl Ask {
    /// The first part of its URL's path.
    fn name(&self) -> &'static str {
        match self {
            Self::Exec(_) => "exec",
            Self::Attach(_) => "attach",
            Self::PortForward(_) => "portforward",
        }
    }
}

/// The server of one runtime, and what it has promised.
#[derive(Default)]
pub(super) struct Streaming {
    server: Mutex<Option<Server>>,
    tokens: Tokens,
}

struct Server {
    address: SocketAddr,
    /// Ends it with the runtime.
    _end: DropGuard,
}

impl Streaming {
    /// A URL at which this is served once.
    pub(super) fn url(core: &Arc<Core>, ask: Ask) -> Result<String, Status> {
        let address = core.streaming.address(core)?;
        let name = ask.name();
        let token = core.streaming.tokens.add(ask, Instant::now());
        let token = token
            .ok_or_else(|| Status::resource_exhausted("maximum number of in-flight requests exceeded"))?;
        Ok(format!("http://{address}/{name}/{token}"))
    }

    fn address(&self, core: &Arc<Core>) -> Result<SocketAddr, Status> {
        let mut server = self.server.lock();
        if let Some(server) = server.as_ref() {
            return Ok(server.address);
        }
        let failed =
            |error| Status::internal(format!("the streaming server cannot listen on 127.0.0.1: {error}"));
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
        let end = CancellationToken::new();
        *server = Some(Server { address, _end: end.clone().drop_guard() });
        tokio::spawn(server::run(listener, Arc::downgrade(core), end));
        Ok(address)
    }
}
