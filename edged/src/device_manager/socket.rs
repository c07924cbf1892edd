//! The sockets of EdgeD's gRPC servers: plugins register at one, and the other one serves the pod-resources API.

use std::{io, path::Path, time::Duration};

use componentbase::Backoff;
use limits::ConnectionLimits;
use tonic::{service::Routes, transport::Server};
use unixsocket::{limited_connections, listen};

/// Only root may connect, as with the kubelet.
const MODE: u32 = 0o600;
/// The most concurrent requests of one client; further ones wait in the connection.
const MAX_CONCURRENT_REQUESTS: usize = 16;
/// The limits of connections, established and silent ones. Beyond them the one that was silent for longest is closed.
const CONNECTION_LIMITS: ConnectionLimits = ConnectionLimits {
    established: 256,
    reserved: 0,
    pending: 64,
    per_address: usize::MAX,
};
/// How long a new connection may stay silent.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a client is probed: one that vanished would keep its connection.
const PROBE_INTERVAL: Duration = Duration::from_secs(60);
/// How long the answer to a probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a request may take, longer than a plugin may take for the calls that its registration causes.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// First delay before a socket that cannot be served is tried again, doubled up to [`MAX_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Serves on a socket after `prepare` has prepared its directory. Never returns: a socket that another program serves is tried
/// again.
pub(super) async fn serve(path: &Path, routes: Routes, prepare: impl Fn(&Path) -> io::Result<()>) {
    let mut backoff = Backoff::new(FIRST_WAIT, MAX_WAIT);
    loop {
        let bound = prepare(path).and_then(|()| listen(path, MODE));
        let wait = backoff.next(1.0);
        match bound {
            Ok(listener) => {
                let server = Server::builder()
                    .concurrency_limit_per_connection(MAX_CONCURRENT_REQUESTS)
                    .max_concurrent_streams(MAX_CONCURRENT_REQUESTS as u32)
                    .http2_keepalive_interval(Some(PROBE_INTERVAL))
                    .http2_keepalive_timeout(Some(PROBE_TIMEOUT))
                    .timeout(REQUEST_TIMEOUT)
                    .add_routes(routes.clone());
                let incoming =
                    limited_connections(listener, CONNECTION_LIMITS, FIRST_REQUEST_TIMEOUT);
                tracing::info!(socket = %path.display(), "listening");
                if let Err(error) = server.serve_with_incoming(incoming).await {
                    let error = wire::text::with_causes(&error);
                    tracing::warn!(socket = %path.display(), error, retry_in = ?wait, "failed to serve a socket; retrying");
                }
            }
            Err(error) => tracing::warn!(
                socket = %path.display(),
                %error,
                retry_in = ?wait,
                "cannot listen on a socket; stop another kubelet or EdgeCore; retrying"
            ),
        }
        tokio::time::sleep(wait).await;
    }
}
