//! Bytes of one stream into another, both ways, until both have ended.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quinn::{ReadError, RecvStream, SendStream, VarInt, WriteError};
use tokio::time::sleep;

use super::table::Counted;
use crate::faults::now;

/// Two streams between which nothing goes for so long are ended.
pub(super) const IDLE: Duration = Duration::from_secs(60 * 60);
/// Bytes taken at a time.
const PORTION: usize = 16 * 1024;
/// A stream breaks off, as far as nobody says otherwise.
pub(super) const BROKEN: VarInt = VarInt::from_u32(2);

/// A stream both ways.
pub(super) type Both = (SendStream, RecvStream);

/// Joins two streams.
pub(super) async fn splice(
    (mut to_one, mut of_one): Both,
    (mut to_other, mut of_other): Both,
    counted: &Counted,
) {
    let last = Mutex::new(now());
    let ways = async {
        tokio::join!(
            carry(&mut of_one, &mut to_other, |bytes| passed(&last, counted, 0, bytes)),
            carry(&mut of_other, &mut to_one, |bytes| passed(&last, counted, 1, bytes)),
        )
    };
    tokio::select! {
        // cancel-safe, both: the streams end
        _ = ways => {}
        () = idle(&last) => {
            for stream in [&mut to_one, &mut to_other] {
                // one that has ended needs no end
                let _ = stream.reset(BROKEN);
            }
        }
    }
}

fn passed(last: &Mutex<Instant>, counted: &Counted, way: usize, bytes: usize) {
    *last.lock() = now();
    counted.add(way, bytes);
}

/// Until nothing has passed for [`IDLE`].
async fn idle(last: &Mutex<Instant>) {
    loop {
        let since = now().saturating_duration_since(*last.lock());
        if since >= IDLE {
            return;
        }
        sleep(IDLE - since).await;
    }
}

/// One way: an end is handed on as such, and a stream that breaks off breaks the other.
async fn carry(from: &mut RecvStream, to: &mut SendStream, passed: impl Fn(usize)) {
    loop {
        match from.read_chunk(PORTION, true).await {
            Ok(Some(chunk)) => {
                let size = chunk.bytes.len();
                match to.write_chunk(chunk.bytes).await {
                    Ok(()) => passed(size),
                    Err(error) => {
                        let code = if let WriteError::Stopped(code) = error { code } else { BROKEN };
                        // one that has ended needs no stop
                        let _ = from.stop(code);
                        return;
                    }
                }
            }
            Ok(None) => {
                // the other end may be gone, which its own way says
                let _ = to.finish();
                return;
            }
            Err(error) => {
                let code = if let ReadError::Reset(code) = error { code } else { BROKEN };
                let _ = to.reset(code);
                return;
            }
        }
    }
}
