//! Copies the bytes of two streams into each other, until both have ended, or one of them is gone.

use std::time::Duration;

use clock::Instant;

use parking_lot::Mutex;
use quinn::{Connection, ReadError, RecvStream, SendStream, VarInt, WriteError};
use tokio::time::sleep;

use super::{stream::BiStream, table::JoinedStreams};

/// Two streams without traffic are closed after this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// How long the first bytes of each of the two nodes may take: the answer of the one, and the beginning of TLS of the other.
const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(15);
/// After one direction has broken off, how long the other one may be silent before it is ended as well.
const BROKEN_IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// How many bytes are read at a time.
const CHUNK_SIZE: usize = 16 * 1024;
/// The code of QUIC with which a stream breaks off, unless its other end gives another one.
const BROKEN: VarInt = VarInt::from_u32(2);

/// A stream, and the connection that it belongs to.
pub(super) struct NodeStream<'a> {
    pub(super) connection: &'a Connection,
    pub(super) stream: BiStream,
}

/// Where the two directions are.
#[derive(Debug)]
struct Progress {
    /// When bytes were last copied, in either direction.
    last: Instant,
    /// Whether bytes were copied in this direction, or it has ended.
    begun: [bool; 2],
    /// Whether a direction has broken off.
    is_broken: bool,
}

impl Progress {
    fn advance(&mut self, direction: usize) {
        self.last = clock::Instant::now();
        if let Some(begun) = self.begun.get_mut(direction) {
            *begun = true;
        }
    }
}

/// Joins two streams, the first of which belongs to the node that asked.
pub(super) async fn splice(one: NodeStream<'_>, other: NodeStream<'_>, joined: &JoinedStreams) {
    let ((to_one, mut from_one), (to_other, mut from_other)) = (one.stream, other.stream);
    let (mut to_one, mut to_other) = (Writer::new(to_one), Writer::new(to_other));
    let progress = Mutex::new(Progress {
        last: clock::Instant::now(),
        begun: [false; 2],
        is_broken: false,
    });
    let copied = |direction: usize, bytes: usize| {
        progress.lock().advance(direction);
        joined.add(direction, bytes);
    };
    let ended = |direction: usize, is_clean: bool| {
        let mut progress = progress.lock();
        progress.advance(direction);
        progress.is_broken |= !is_clean;
    };
    let both = async {
        tokio::join!(
            async {
                ended(
                    0,
                    copy(&mut from_one, &mut to_other, |bytes| copied(0, bytes)).await,
                )
            },
            async {
                ended(
                    1,
                    copy(&mut from_other, &mut to_one, |bytes| copied(1, bytes)).await,
                )
            },
        )
    };
    clock::select! {
        // cancel-safe: what has not ended by then is broken off
        _ = both => {}
        () = wait_stalled(&progress) => {}
        _ = one.connection.closed() => {}
        _ = other.connection.closed() => {}
    }
}

/// The sending side of a stream. If it has not ended when it is dropped, it is broken off: an end would be taken for that of the
/// connection.
struct Writer {
    stream: SendStream,
    has_ended: bool,
}

impl Writer {
    fn new(stream: SendStream) -> Self {
        Self {
            stream,
            has_ended: false,
        }
    }

    fn finish(&mut self) {
        // a reader that is gone needs no end
        let _ = self.stream.finish();
        self.has_ended = true;
    }

    fn reset(&mut self, code: VarInt) {
        // as above
        let _ = self.stream.reset(code);
        self.has_ended = true;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.has_ended {
            self.reset(BROKEN);
        }
    }
}

/// Waits until one of the timeouts has passed.
async fn wait_stalled(progress: &Mutex<Progress>) {
    let started = clock::Instant::now();
    loop {
        let (rest, is_begun) = {
            let progress = progress.lock();
            let is_begun = progress.begun == [true; 2];
            let idle = if progress.is_broken {
                BROKEN_IDLE_TIMEOUT
            } else {
                IDLE_TIMEOUT
            };
            let of_idle =
                idle.saturating_sub(clock::Instant::now().saturating_duration_since(progress.last));
            let of_first = FIRST_BYTES_TIMEOUT
                .saturating_sub(clock::Instant::now().saturating_duration_since(started));
            (
                if is_begun {
                    of_idle
                } else {
                    of_idle.min(of_first)
                },
                is_begun,
            )
        };
        if rest.is_zero() {
            return;
        }
        // a direction may break off meanwhile, after which less time is left
        sleep(rest.min(if is_begun {
            BROKEN_IDLE_TIMEOUT
        } else {
            FIRST_BYTES_TIMEOUT
        }))
        .await;
    }
}

/// Copies one direction until it ends; reports whether it has ended, and not broken off. The end is handed on to the reader, and that the
/// reader is gone to the writer, also while that one is silent.
async fn copy(from: &mut RecvStream, to: &mut Writer, copied: impl Fn(usize)) -> bool {
    let stopped = to.stream.stopped();
    tokio::pin!(stopped);
    loop {
        let read = clock::select! {
            // cancel-safe: a chunk is taken only by the arm that wins
            read = from.read_chunk(CHUNK_SIZE, true) => read,
            why = &mut stopped => {
                stop(from, why.ok().flatten());
                return false;
            }
        };
        match read {
            Ok(Some(chunk)) => {
                let size = chunk.bytes.len();
                if let Err(error) = to.stream.write_chunk(chunk.bytes).await {
                    stop(
                        from,
                        if let WriteError::Stopped(code) = error {
                            Some(code)
                        } else {
                            None
                        },
                    );
                    return false;
                }
                copied(size);
            }
            Ok(None) => {
                to.finish();
                return true;
            }
            Err(error) => {
                to.reset(if let ReadError::Reset(code) = error {
                    code
                } else {
                    BROKEN
                });
                return false;
            }
        }
    }
}

fn stop(from: &mut RecvStream, code: Option<VarInt>) {
    // a stream that has ended needs no stop
    let _ = from.stop(code.unwrap_or(BROKEN));
}
