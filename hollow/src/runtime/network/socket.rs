//! Connections to simulated pods for an agent in another process, at a socket beside that of CRI.

use std::{io, sync::Arc, time::Duration};

use edged::{CONNECTED, PodNetwork, REFUSED, read_line};
use tokio::{
    io::{AsyncWriteExt, copy_bidirectional},
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::LONGEST;

/// The most connections at one time; another one waits until one has ended.
const MAX_CONNECTIONS: usize = 256;
/// How long a client may take to send its request, and the connection to be established.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait after a connection could not be accepted, as without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves connections until `shutdown`, which also ends them.
pub(in crate::runtime) async fn serve(
    listener: UnixListener,
    network: Arc<dyn PodNetwork>,
    shutdown: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            let (client, _) = listener.accept().await.ok()?;
            Some((place, client))
        };
        let (place, client) = clock::select! {
            // cancel-safe: the server ends then
            () = shutdown.cancelled() => return,
            next = next => match next {
                Some(next) => next,
                None => {
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let (network, shutdown) = (Arc::clone(&network), shutdown.clone());
        tokio::spawn(async move {
            let _place = place;
            clock::select! {
                // cancel-safe: the connection ends then
                () = shutdown.cancelled() => {}
                // A client that has left needs no error.
                _ = forward(client, &*network) => {}
            }
        });
    }
}

/// Serves one connection.
async fn forward(mut client: UnixStream, network: &dyn PodNetwork) -> io::Result<()> {
    let connecting = async {
        let line = read_line(&mut client).await?;
        let (host, port) = line.rsplit_once(' ').ok_or(io::ErrorKind::InvalidData)?;
        let port = port.parse().map_err(|_| io::ErrorKind::InvalidData)?;
        network.connect(host, port).await
    };
    let mut server = match timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(Ok(server)) => server,
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return client.write_all(format!("{REFUSED}\n").as_bytes()).await;
        }
        Ok(Err(error)) => return client.write_all(format!("{error}\n").as_bytes()).await,
        Err(_) => return client.write_all(b"i/o timeout\n").await,
    };
    client
        .write_all(format!("{CONNECTED}\n").as_bytes())
        .await?;
    timeout(LONGEST, copy_bidirectional(&mut client, &mut server))
        .await?
        .map(drop)
}
