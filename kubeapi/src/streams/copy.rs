//! Bytes from one connection to another, and how long nothing may come.

use std::{io, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    time::{Instant, sleep_until, timeout},
};

/// How long nothing may come in either direction; the real server's and the runtimes' limit.
const IDLE: Duration = Duration::from_secs(4 * 60 * 60);
/// Bytes read at a time.
const CHUNK: usize = 16 * 1024;
/// How long the end of a connection may take.
const FAREWELL: Duration = Duration::from_secs(10);

/// When something came last; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Idle(Arc<Mutex<Instant>>);

impl Idle {
    /// Something came now.
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    /// Something came.
    pub(super) fn touch(&self) {
        *self.0.lock() = Instant::now();
    }

    /// Waits until nothing has come for too long.
    pub(super) async fn passed(&self) {
        loop {
            let deadline = *self.0.lock() + IDLE;
            if deadline <= Instant::now() {
                return;
            }
            sleep_until(deadline).await;
        }
    }
}

/// Copies until the end of `from`.
pub(super) async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    idle: &Idle,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = from.read(&mut chunk).await?;
        if length == 0 {
            return Ok(());
        }
        idle.touch();
        to.write_all(&chunk[..length]).await?;
        to.flush().await?;
        idle.touch();
    }
}

/// Copies both ways. The direction that ends first ends both, as in the real server: there is no half of a TCP connection here.
pub(super) async fn both(one: impl AsyncRead + AsyncWrite, other: impl AsyncRead + AsyncWrite) {
    let idle = Idle::new();
    let (one_reads, mut one_writes) = split(one);
    let (other_reads, mut other_writes) = split(other);
    tokio::select! {
        // what has come by then has been written
        _ = pump(other_reads, &mut one_writes, &idle) => {}
        _ = pump(one_reads, &mut other_writes, &idle) => {}
        () = idle.passed() => tracing::debug!("a stream on which nothing comes is closed"),
    }
    let farewell = async { tokio::join!(one_writes.shutdown(), other_writes.shutdown()) };
    // whoever has gone needs none
    let _ = timeout(FAREWELL, farewell).await;
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    #[tokio::test]
    async fn the_end_of_one_direction_ends_both_after_its_last_byte() {
        let ((mut client, one), (mut node, other)) = (duplex(4096), duplex(64));
        let copying = tokio::spawn(both(one, other));
        client.write_all(b"in").await.unwrap();
        let mut came = [0; 2];
        node.read_exact(&mut came).await.unwrap();
        node.write_all(&[7; 1000]).await.unwrap();
        let mut all = vec![0; 1000];
        client.read_exact(&mut all).await.unwrap();
        node.write_all(b"last").await.unwrap();
        drop(node);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert_eq!((&came, rest.as_slice()), (b"in", &b"last"[..]));
        copying.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_idle_for_hours_ends() {
        let ((_client, one), (mut node, other)) = (duplex(64), duplex(64));
        let (begun, copying) = (Instant::now(), tokio::spawn(both(one, other)));
        tokio::time::advance(IDLE / 2).await;
        node.write_all(b"x").await.unwrap();
        copying.await.unwrap();
        assert!(begun.elapsed() >= IDLE + IDLE / 2);
    }
}
