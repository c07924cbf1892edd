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

use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tracing::warn;
use unixsocket::connections;
use wire::dmi::device_manager_service_server::DeviceManagerServiceServer;

use super::server::Manager;

/// The largest request. A report of all properties of a device is a few kilobytes.
const REQUEST_BYTES: usize = 1024 * 1024;
/// Requests of one mapper at one time; further ones wait in the connection.
const REQUESTS: usize = 16;
/// A request that takes longer is given up: the store hangs.
const PATIENCE: Duration = Duration::from_secs(10);
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
            .timeout(PATIENCE)
            .add_service(service);
        let stopped = shutdown.clone().cancelled_owned();
        let serving = server.serve_with_incoming_shutdown(connections(listener), stopped);
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
