//! Many clients that connect and send nothing, for tests of servers.

use std::{net::SocketAddr, path::Path};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    net::{TcpStream, UnixStream},
    time::timeout,
};

use crate::WAIT_TIMEOUT;

/// Opens `count` connections to `address` that send nothing. The server may have closed some of them already.
///
/// # Panics
/// A connection is refused.
pub async fn silent_tcp(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let _ = limits::raise_open_files();
    let mut crowd = Vec::with_capacity(count);
    for number in 0..count {
        let connected = timeout(WAIT_TIMEOUT, TcpStream::connect(address)).await;
        match connected {
            Ok(Ok(stream)) => crowd.push(stream),
            other => panic!("connection {number} to {address}: {other:?}"),
        }
    }
    crowd
}

/// Opens `count` connections to a unix socket that send nothing. The server may have closed some of them already.
///
/// # Panics
/// A connection is refused.
pub async fn silent_unix(path: &Path, count: usize) -> Vec<UnixStream> {
    let _ = limits::raise_open_files();
    let mut crowd = Vec::with_capacity(count);
    for number in 0..count {
        match timeout(WAIT_TIMEOUT, UnixStream::connect(path)).await {
            Ok(Ok(stream)) => crowd.push(stream),
            other => panic!("connection {number} to {}: {other:?}", path.display()),
        }
    }
    crowd
}

/// Waits until the server has closed a connection, ignoring what it sends before.
///
/// # Panics
/// The server does not close it in time.
pub async fn closed(stream: &mut (impl AsyncRead + Unpin)) {
    let mut buffer = [0; 4096];
    let ended = timeout(WAIT_TIMEOUT, async {
        while matches!(stream.read(&mut buffer).await, Ok(1..)) {}
    })
    .await;
    assert!(
        ended.is_ok(),
        "the server keeps a connection on which nothing is said"
    );
}
