//! The address of a runtime's streaming server, and the requests for which URLs were given out.

use std::net::{Ipv4Addr, SocketAddr};

use clock::Instant;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Status;

use super::{request::StreamRequest, tokens::Tokens};

/// The address of the server, and the tokens of its URLs.
#[derive(Default)]
pub(crate) struct Endpoint {
    server: Mutex<Option<Server>>,
    pub(super) tokens: Tokens,
}

struct Server {
    address: SocketAddr,
    /// Ends the server with the runtime.
    _end: DropGuard,
}

impl Endpoint {
    /// Returns a URL at which this request is served once. `serve` starts the server if there is none yet; it runs until the token is
    /// cancelled.
    pub(super) fn url(
        &self,
        request: StreamRequest,
        serve: impl FnOnce(TcpListener, CancellationToken),
    ) -> Result<String, Status> {
        let address = self.address(serve)?;
        let name = request.name();
        let token = self.tokens.add(request, Instant::now());
        let token = token.ok_or_else(|| {
            Status::resource_exhausted("maximum number of in-flight requests exceeded")
        })?;
        Ok(format!("http://{address}/{name}/{token}"))
    }

    fn address(
        &self,
        serve: impl FnOnce(TcpListener, CancellationToken),
    ) -> Result<SocketAddr, Status> {
        let mut server = self.server.lock();
        if let Some(server) = server.as_ref() {
            return Ok(server.address);
        }
        let failed = |error| {
            Status::internal(format!(
                "the streaming server cannot listen on 127.0.0.1: {error}"
            ))
        };
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let listener = TcpListener::from_std(listener).map_err(failed)?;
        let end = CancellationToken::new();
        *server = Some(Server {
            address,
            _end: end.clone().drop_guard(),
        });
        serve(listener, end);
        Ok(address)
    }
}
