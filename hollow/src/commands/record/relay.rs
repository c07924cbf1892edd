//! Copies the bytes of a connection in both directions, unchanged. A slow side slows the other: at most one piece of each direction is in
//! memory.

use std::{io, time::Duration};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    time::{Instant, timeout},
};

use super::tap::Tap;

/// The bytes that are copied at once.
const PIECE: usize = 16 * 1024;
/// How long both directions may be silent. Sessions have a keepalive every 15 s, and tunnels a ping every few seconds.
const SILENCE_LIMIT: Duration = Duration::from_secs(600);
/// How long a side may accept nothing of what the other has sent.
const STALL_LIMIT: Duration = Duration::from_secs(120);
/// How long the second direction may take after the end of the first.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// Copies until both directions have ended, or one has failed.
///
/// # Errors
/// A connection has failed, or a limit was exceeded.
pub(super) async fn relay<E, C>(
    edge: E,
    cloud: C,
    taps: (&mut impl Tap, &mut impl Tap),
) -> io::Result<()>
where
    E: AsyncRead + AsyncWrite,
    C: AsyncRead + AsyncWrite,
{
    let (mut from_edge, mut to_edge) = split(edge);
    let (mut from_cloud, mut to_cloud) = split(cloud);
    let active = Mutex::new(Instant::now());
    let up = copy(&mut from_edge, &mut to_cloud, taps.0, &active);
    let down = copy(&mut from_cloud, &mut to_edge, taps.1, &active);
    tokio::pin!(up, down);
    let rest = async {
        // cancel-safe: the other direction continues below
        clock::select! {
            ended = &mut up => {
                ended?;
                timeout(CLOSE_LIMIT, down).await
            }
            ended = &mut down => {
                ended?;
                timeout(CLOSE_LIMIT, up).await
            }
        }
        // a side that does not close after the other has is closed
        .unwrap_or(Ok(()))
    };
    rest.await
}

/// Copies one direction until its end, which is passed on.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    tap: &mut impl Tap,
    active: &Mutex<Instant>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let size = match timeout(SILENCE_LIMIT, from.read(&mut piece)).await {
            Ok(read) => read?,
            Err(_) if active.lock().elapsed() < SILENCE_LIMIT => continue,
            Err(_) => return Err(timeout_error("no bytes", SILENCE_LIMIT)),
        };
        if size == 0 {
            return to.shutdown().await;
        }
        *active.lock() = Instant::now();
        tap.take(&piece[..size]);
        let written = async {
            to.write_all(&piece[..size]).await?;
            to.flush().await
        };
        match timeout(STALL_LIMIT, written).await {
            Ok(written) => written?,
            Err(_) => return Err(timeout_error("the peer accepts nothing", STALL_LIMIT)),
        }
    }
}

fn timeout_error(what: &str, limit: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("{what} for {limit:?}"))
}

#[cfg(test)]
mod tests {
    use peer::Service;
    use record::{ConnectionRecorder, Side};
    use tokio::io::{DuplexStream, duplex};

    use super::{super::tap::WebSocketTap, *};

    /// Starts a relay; returns its outcome, the edge and the cloud. At most `room` bytes wait in each direction of each connection.
    fn start(
        room: usize,
    ) -> (
        tokio::task::JoinHandle<io::Result<()>>,
        DuplexStream,
        DuplexStream,
    ) {
        let (edge, of_edge) = duplex(room);
        let (cloud, of_cloud) = duplex(room);
        let relay = tokio::spawn(async move {
            let tap =
                |from| WebSocketTap::new(Service::Hub, from, false, ConnectionRecorder::default());
            let (mut up, mut down) = (tap(Side::Edge), tap(Side::Cloud));
            relay(of_edge, of_cloud, (&mut up, &mut down)).await
        });
        (relay, edge, cloud)
    }

    #[tokio::test]
    async fn bytes_and_ends_are_passed_on_unchanged() {
        let (relay, mut edge, mut cloud) = start(64);
        // no frames of WebSocket
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let (up, down) = (
            bytes.clone(),
            bytes.iter().rev().copied().collect::<Vec<_>>(),
        );
        let sent_down = down.clone();
        let of_edge = async {
            edge.write_all(&up).await.unwrap();
            edge.shutdown().await.unwrap();
            let mut read = Vec::new();
            edge.read_to_end(&mut read).await.unwrap();
            read
        };
        let of_cloud = async {
            let mut read = Vec::new();
            cloud.read_to_end(&mut read).await.unwrap();
            // the edge has ended its direction only
            cloud.write_all(&sent_down).await.unwrap();
            cloud.shutdown().await.unwrap();
            read
        };
        let (at_edge, at_cloud) = tokio::join!(of_edge, of_cloud);
        assert!(at_cloud == bytes && at_edge == down);
        relay.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_side_that_reads_nothing_slows_the_other_until_the_limit() {
        let (relay, mut edge, _cloud) = start(64);
        let mut accepted = 0;
        let begun = Instant::now();
        while let Ok(size) = edge.write(&[1; 1000]).await {
            accepted += size;
        }
        assert!(accepted <= 2 * 64 + PIECE, "{accepted}");
        assert!(begun.elapsed() >= STALL_LIMIT);
        let error = relay.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_bytes_is_closed() {
        let (relay, mut edge, _cloud) = start(64);
        tokio::time::sleep(SILENCE_LIMIT / 2).await;
        edge.write_all(b"x").await.unwrap();
        let begun = Instant::now();
        let error = relay.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= SILENCE_LIMIT, "{:?}", begun.elapsed());
    }
}
