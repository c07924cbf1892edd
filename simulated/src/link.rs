//! One connection between a node and the cloud, frame by frame: each takes its time, may come twice, may be the last one and
//! break off in its middle, or goes nowhere.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split},
    time::sleep,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Chance,
    frames::{Frame, take},
    watcher::{Direction, Watcher},
};

/// Bytes that either end may be ahead, as in a socket's buffer.
const BUFFER: usize = 64 * 1024;
/// Bytes read at one time.
const PORTION: usize = 16 * 1024;

/// What may become of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// The longest that one takes, milliseconds.
    pub delay: u64,
    /// So many in a thousand come twice.
    pub twice: u64,
    /// So many in a thousand are the last: a part of it arrives, and the connection ends.
    pub last: u64,
}

impl Faults {
    /// A link that is as it should be.
    pub const NONE: Self = Self { delay: 0, twice: 0, last: 0 };
}

/// A connection; it ends with this.
#[derive(Debug)]
pub(crate) struct Connection {
    swallowing: Arc<AtomicBool>,
    end: CancellationToken,
    _ends: DropGuard,
}

/// What both directions of a connection know.
#[derive(Clone)]
struct Way {
    node: String,
    faults: Faults,
    swallowing: Arc<AtomicBool>,
    watcher: Watcher,
    end: CancellationToken,
}

impl Connection {
    /// A new connection: it, the node's end, and the cloud's.
    pub(crate) fn new(
        node: &str,
        (seed, number): (u64, u64),
        faults: Faults,
        watcher: &Watcher,
    ) -> (Self, DuplexStream, DuplexStream) {
        let ((near, node_end), (far, cloud_end)) = (duplex(BUFFER), duplex(BUFFER));
        let (end, swallowing) = (CancellationToken::new(), Arc::default());
        let way = Way {
            node: node.to_owned(),
            faults,
            swallowing: Arc::clone(&swallowing),
            watcher: watcher.clone(),
            end: end.clone(),
        };
        let ((from_node, to_node), (from_cloud, to_cloud)) = (split(near), split(far));
        let chance = |direction: &str| Chance::of(seed, &["link", node, direction], number);
        tokio::spawn(way.clone().carry(Direction::Up, chance("up"), from_node, to_cloud));
        tokio::spawn(way.carry(Direction::Down, chance("down"), from_cloud, to_node));
        (Self { swallowing, _ends: end.clone().drop_guard(), end }, node_end, cloud_end)
    }

    /// From now on nothing comes through, and neither end is told.
    pub(crate) fn swallow(&self) {
        self.swallowing.store(true, Ordering::Relaxed);
    }

    /// Whether it stands, as far as the link is concerned.
    pub(crate) fn stands(&self) -> bool {
        !self.end.is_cancelled()
    }
}

impl Way {
    async fn carry(
        self,
        direction: Direction,
        mut chance: Chance,
        mut from: ReadHalf<DuplexStream>,
        mut to: WriteHalf<DuplexStream>,
    ) {
        let carrying = async {
            let (mut buffer, mut portion) = (Vec::new(), vec![0; PORTION]);
            loop {
                let size = match from.read(&mut portion).await {
                    Ok(size) if size > 0 => size,
                    _ => return,
                };
                buffer.extend_from_slice(&portion[..size]);
                while let Some(frame) = take(&mut buffer) {
                    if self.pass(direction, &mut chance, frame, &mut to).await.is_none() {
                        return;
                    }
                }
            }
        };
        tokio::select! {
            biased;
            // cancel-safe: the connection is over
            () = self.end.cancelled() => {}
            () = carrying => {}
        }
        // both ends see the end at the same time
        self.end.cancel();
    }

    /// Carries one frame over; `None` where the connection ends with it.
    async fn pass(
        &self,
        direction: Direction,
        chance: &mut Chance,
        frame: Frame,
        to: &mut WriteHalf<DuplexStream>,
    ) -> Option<()> {
        let message = frame.message.and_then(|bytes| wire::json::decode(&bytes, usize::MAX).ok());
        if let Some(message) = &message {
            // as soon as it was said it may have been heard
            self.watcher.said(&self.node, direction, message);
        }
        // drawn for every frame, whether it is needed or not
        let delay = chance.below(self.faults.delay * 1000 + 1);
        let (twice, last) = (chance.permille(self.faults.twice), chance.permille(self.faults.last));
        let part = usize::try_from(chance.below(frame.bytes.len() as u64)).unwrap_or_default();
        if delay > 0 {
            sleep(Duration::from_micros(delay)).await;
        }
        if self.swallowing.load(Ordering::Relaxed) {
            return Some(());
        }
        if last && message.is_some() {
            to.write_all(&frame.bytes[..part]).await.ok()?;
            return None;
        }
        to.write_all(&frame.bytes).await.ok()?;
        if twice && message.is_some() {
            to.write_all(&frame.bytes).await.ok()?;
        }
        Some(())
    }
}
