//! Helpers for tests of servers: many clients that connect and send nothing, and a log in memory.

mod log_buffer;

use std::{net::SocketAddr, path::Path, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    net::{TcpStream, UnixStream},
    time::timeout,
};

pub use self::log_buffer::LogBuffer;

/// The limit of every wait. It is longer than anything here takes, so that only a hanging test fails.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Opens `count` connections to `address` that send nothing. The server may have closed some of them already.
///
/// # Panics
/// A connection is refused.
pub async fn silent_tcp(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let _ = super::raise_open_files();
    let mut crowd = Vec::with_capacity(count);
    for number in 0..count {
        let connected = timeout(TIMEOUT, TcpStream::connect(address)).await;
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
    let _ = super::raise_open_files();
    let mut crowd = Vec::with_capacity(count);
    for number in 0..count {
        match timeout(TIMEOUT, UnixStream::connect(path)).await {
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
    let ended = timeout(TIMEOUT, async { while matches!(stream.read(&mut buffer).await, Ok(1..)) {} }).await;
    assert!(ended.is_ok(), "the server keeps a connection on which nothing is said");
}
