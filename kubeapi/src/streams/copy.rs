//! Copies bytes between two connections, with an idle timeout.

use std::{io, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    time::{Instant, sleep_until, timeout},
};

/// How long both directions may be idle: the limit of the API server and of container runtimes.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4 * 60 * 60);
/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 16 * 1024;
/// How long closing a connection may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// When bytes were last received; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct LastActivity(Arc<Mutex<Instant>>);

impl LastActivity {
    /// Starts with the current time.
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    /// Records that bytes were received now.
    pub(super) fn touch(&self) {
        *self.0.lock() = Instant::now();
    }

    /// Waits until nothing was received for [`IDLE_TIMEOUT`].
    pub(super) async fn wait_idle(&self) {
        loop {
            let deadline = *self.0.lock() + IDLE_TIMEOUT;
            if deadline <= Instant::now() {
                return;
            }
            sleep_until(deadline).await;
        }
    }
}

/// Copies until `from` ends.
pub(super) async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    idle: &LastActivity,
) -> io::Result<()> {
    let mut chunk = vec![0; BUFFER_BYTES];
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

/// Copies in both directions. The direction that ends first ends both, as in the API server: half-closed TCP connections are not
/// supported.
pub(super) async fn both(one: impl AsyncRead + AsyncWrite, other: impl AsyncRead + AsyncWrite) {
    let idle = LastActivity::new();
    let (one_reads, mut one_writes) = split(one);
    let (other_reads, mut other_writes) = split(other);
    clock::select! {
        // what has come by then has been written
        _ = pump(other_reads, &mut one_writes, &idle) => {}
        _ = pump(one_reads, &mut other_writes, &idle) => {}
        () = idle.wait_idle() => tracing::debug!("idle stream closed"),
    }
    let farewell = async { tokio::join!(one_writes.shutdown(), other_writes.shutdown()) };
    // whoever has gone needs none
    let _ = timeout(CLOSE_TIMEOUT, farewell).await;
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
        tokio::time::advance(IDLE_TIMEOUT / 2).await;
        node.write_all(b"x").await.unwrap();
        copying.await.unwrap();
        assert!(begun.elapsed() >= IDLE_TIMEOUT + IDLE_TIMEOUT / 2);
    }
}
