//! The unix socket that mappers connect to.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use limits::ConnectionLimits;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tracing::warn;
use unixsocket::{limited_connections, listen};
use wire::dmi::device_manager_service_server::DeviceManagerServiceServer;

use super::server::DeviceManager;

/// The largest request, bytes. A report of all properties of a device has a few kilobytes.
const MAX_REQUEST_BYTES: usize = 1024 * 1024;
/// The most concurrent requests of one mapper; further ones wait in the connection.
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
/// How often a mapper is probed: one that vanished would keep its connection.
const PROBE_INTERVAL: Duration = Duration::from_secs(60);
/// How long the answer to a probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a request may take: beyond it the store hangs.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long running calls may take after the shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A bound socket; its file is removed with it.
#[derive(Debug)]
pub(super) struct Socket {
    listener: UnixListener,
    file: File,
}

/// The file of the socket, removed on drop.
#[derive(Debug)]
struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            warn!(path = %self.0.display(), %error, "failed to remove the DMI socket");
        }
    }
}

impl Socket {
    /// Listens, accessible to this user and its group. The socket of a dead agent is replaced; one that is served is not.
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
        let listener = listen(path, 0o660)?;
        Ok(Self {
            listener,
            file: File(path.to_owned()),
        })
    }

    /// Serves until `shutdown`.
    pub(super) async fn serve(
        self,
        manager: DeviceManager,
        shutdown: CancellationToken,
    ) -> Result<(), tonic::transport::Error> {
        let Self { listener, file } = self;
        let service =
            DeviceManagerServiceServer::new(manager).max_decoding_message_size(MAX_REQUEST_BYTES);
        let server = Server::builder()
            .concurrency_limit_per_connection(MAX_CONCURRENT_REQUESTS)
            .max_concurrent_streams(MAX_CONCURRENT_REQUESTS as u32)
            .http2_keepalive_interval(Some(PROBE_INTERVAL))
            .http2_keepalive_timeout(Some(PROBE_TIMEOUT))
            .timeout(REQUEST_TIMEOUT)
            .add_service(service);
        let stopped = shutdown.clone().cancelled_owned();
        let incoming = limited_connections(listener, CONNECTION_LIMITS, FIRST_REQUEST_TIMEOUT);
        let serving = server.serve_with_incoming_shutdown(incoming, stopped);
        let too_long = async {
            shutdown.cancelled().await;
            tokio::time::sleep(DRAIN_TIMEOUT).await;
        };
        // whichever ends last is not needed any more
        let ended = clock::select! {
            ended = serving => ended,
            () = too_long => Ok(()),
        };
        drop(file);
        ended
    }
}
