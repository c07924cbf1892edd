//! Connections to the runtime: a channel in memory, and a unix socket.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use edged::{RuntimeChannel, pod_socket};
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Router;
use tower::layer::util::{Identity, Stack};
use unixsocket::{connections, listen};

use super::{Error, SimRuntime, calls::Calls, network, server};

/// How long running calls may take after the shutdown; a `StopContainer` might otherwise wait for its grace to end.
const DRAIN: Duration = Duration::from_secs(1);

impl SimRuntime {
    /// Returns a channel to this runtime without a connection: a call runs in the task of its caller.
    pub fn channel(&self) -> RuntimeChannel {
        let services = server::Services::new(self);
        RuntimeChannel::in_process(move |request| services.answer(request))
    }

    /// Listens on a unix socket for CRI and on one beside it for connections to pods, both for this user alone, before it returns; serves
    /// while the returned future is awaited, until `shutdown`. A socket that a dead runtime left behind is replaced; one that a running
    /// runtime serves is not.
    pub fn serve_unix(
        &self,
        path: &Path,
        shutdown: CancellationToken,
    ) -> Result<impl Future<Output = Result<(), Error>> + Send + use<>, Error> {
        let bind = |path: &Path| {
            listen(path, 0o600).map_err(|source| Error::Bind {
                path: path.into(),
                source,
            })
        };
        let pods = pod_socket(path);
        let listener = bind(path)?;
        let file = SocketFile(path.to_owned());
        let pod_listener = bind(&pods)?;
        let pod_file = SocketFile(pods);
        let (server, path) = (server::router(self, shutdown.clone()), path.to_owned());
        let serving_pods =
            network::socket::serve(pod_listener, self.pod_network(), shutdown.clone());
        Ok(async move {
            let serving = async {
                let result = serve(server, listener, shutdown.clone()).await;
                // also if it has failed
                shutdown.cancel();
                result
            };
            let (result, ()) = tokio::join!(serving, serving_pods);
            drop((pod_file, file));
            result.map_err(|source| Error::Serve { path, source })
        })
    }
}

async fn serve(
    server: Router<Stack<Calls, Identity>>,
    listener: UnixListener,
    shutdown: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let stopped = shutdown.clone().cancelled_owned();
    let serving = server.serve_with_incoming_shutdown(connections(listener), stopped);
    let too_long = async {
        shutdown.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    // Whichever branch loses is not needed any more.
    clock::select! {
        result = serving => result,
        () = too_long => Ok(()),
    }
}

/// A socket that is removed however its server ends.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %self.0.display(), %error, "failed to remove the socket of the runtime");
            }
            _ => {}
        }
    }
}
