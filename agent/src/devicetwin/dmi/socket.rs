//! The unix socket on which mappers call.

use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use limits::ConnectionLimits;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tracing::warn;
use unixsocket::limited_connections;
use wire::dmi::device_manager_service_server::DeviceManagerServiceServer;

use super::server::Manager;

/// The largest request. A report of all properties of a device is a few kilobytes.
const REQUEST_BYTES: usize = 1024 * 1024;
/// Requests of one mapper at one time; further ones wait in the connection.
const REQUESTS: usize = 16;
/// Connections: those that mappers have, and those on which nothing was said yet. Beyond them the one that was silent for longest ends.
const CONNECTIONS: ConnectionLimits =
    ConnectionLimits { established: 256, reserved: 0, pending: 64, per_address: usize::MAX };
/// A mapper that has connected must begin within this time.
const FIRST_REQUEST: Duration = Duration::from_secs(10);
/// Whether a mapper is still there is asked so often: one that vanished would hold its place.
const PROBE_INTERVAL: Duration = Duration::from_secs(60);
/// How long its answer may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);
/// A request that takes longer is given up: the store hangs.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long calls under way may take after the shutdown.
const DRAIN: Duration = Duration::from_secs(1);

/// A bound socket; its file goes with it.
#[derive(Debug)]
pub(super) struct Socket {
    listener: UnixListener,
    file: File,
}

/// Is removed when dropped.
#[derive(Debug)]
struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            warn!(path = %self.0.display(), %error, "the socket of DMI cannot be removed");
        }
    }
}

impl Socket {
    /// Listens, for this user and its group. What a dead agent left behind is replaced; a living one's socket is not.
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => return Err(io::ErrorKind::AlreadyExists.into()),
            Ok(_) if UnixStream::connect(path).is_ok() => return Err(io::ErrorKind::AddrInUse.into()),
            Ok(_) => fs::remove_file(path)?,
            Err(_) => {}
        }
        let listener = UnixListener::bind(path)?;
        let file = File(path.to_owned());
        fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
        Ok(Self { listener, file })
    }

    /// Serves until `shutdown`.
    pub(super) async fn serve(
        self,
        manager: Manager,
        shutdown: CancellationToken,
    ) -> Result<(), tonic::transport::Error> {
        let Self { listener, file } = self;
        let service = DeviceManagerServiceServer::new(manager).max_decoding_message_size(REQUEST_BYTES);
        let server = Server::builder()
            .concurrency_limit_per_connection(REQUESTS)
            .max_concurrent_streams(REQUESTS as u32)
            .http2_keepalive_interval(Some(PROBE_INTERVAL))
            .http2_keepalive_timeout(Some(PROBE_TIMEOUT))
            .timeout(REQUEST_TIMEOUT)
            .add_service(service);
        let stopped = shutdown.clone().cancelled_owned();
        let incoming = limited_connections(listener, CONNECTIONS, FIRST_REQUEST);
        let serving = server.serve_with_incoming_shutdown(incoming, stopped);
        let too_long = async {
            shutdown.cancelled().await;
            tokio::time::sleep(DRAIN).await;
        };
        // whichever loses is not needed any more
        let ended = tokio::select! {
            ended = serving => ended,
            () = too_long => Ok(()),
        };
        drop(file);
        ended
    }
}
