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
/// How long both directions may be silent. Sessions have a keepalive every 15 s, tunnels a ping every minute.
const SILENCE_LIMIT: Duration = Duration::from_secs(600);
/// How long a side may accept nothing of what the other has sent.
const STALL_LIMIT: Duration = Duration::from_secs(120);
/// How long the second direction may take after the end of the first.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// Copies until both directions have ended, or one has failed.
///
/// # Errors
/// A connection has failed, or a limit was exceeded.
pub(super) async fn relay<E, C>(edge: E, cloud: C, taps: (&mut Tap, &mut Tap)) -> io::Result<()>
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
        tokio::select! {
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
    tap: &mut Tap,
    active: &Mutex<Instant>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let size = match timeout(SILENCE_LIMIT, from.read(&mut piece)).await {
            Ok(read) => read?,
            Err(_) if active.lock().elapsed() < SILENCE_LIMIT => continue,
            Err(_) => return Err(exceeded("no bytes", SILENCE_LIMIT)),
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
            Err(_) => return Err(exceeded("the peer accepts nothing", STALL_LIMIT)),
        }
    }
}

fn exceeded(what: &str, limit: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("{what} for {limit:?}"))
}
