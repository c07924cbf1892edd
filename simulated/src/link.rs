//! One connection between a node and the cloud, frame by frame: each frame takes time, may be duplicated, may be the last one and break
//! off in its middle, or may be swallowed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use testkit::Random;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split},
    time::sleep,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    frames::{Frame, take},
    watcher::{Direction, Watcher},
};

/// How many bytes either end may be ahead, as in a socket's buffer.
const BUFFER: usize = 64 * 1024;
/// How many bytes are read at a time.
const PORTION: usize = 16 * 1024;

/// The faults of frames.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// The longest delay of a frame, in milliseconds.
    pub delay: u64,
    /// How many frames in a thousand are duplicated.
    pub twice: u64,
    /// How many frames in a thousand are the last: a part of the frame arrives, and the connection ends.
    pub last: u64,
}

impl Faults {
    /// No faults.
    pub const NONE: Self = Self {
        delay: 0,
        twice: 0,
        last: 0,
    };
}

/// A connection, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    swallowing: Arc<AtomicBool>,
    end: CancellationToken,
    _ends: DropGuard,
}

/// What both directions of a connection share.
#[derive(Clone)]
struct Way {
    node: String,
    faults: Faults,
    swallowing: Arc<AtomicBool>,
    watcher: Watcher,
    end: CancellationToken,
}

impl Connection {
    /// Creates a connection; returns it, the node's end and the cloud's end.
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
        let chance = |direction: &str| Random::of(seed, &["link", node, direction], number);
        tokio::spawn(
            way.clone()
                .carry(Direction::Up, chance("up"), from_node, to_cloud),
        );
        tokio::spawn(way.carry(Direction::Down, chance("down"), from_cloud, to_node));
        (
            Self {
                swallowing,
                _ends: end.clone().drop_guard(),
                end,
            },
            node_end,
            cloud_end,
        )
    }

    /// Swallows everything from now on, without either end noticing.
    pub(crate) fn swallow(&self) {
        self.swallowing.store(true, Ordering::Relaxed);
    }

    /// Reports whether the link is open.
    pub(crate) fn stands(&self) -> bool {
        !self.end.is_cancelled()
    }
}

impl Way {
    async fn carry(
        self,
        direction: Direction,
        mut chance: Random,
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
                    if self
                        .pass(direction, &mut chance, frame, &mut to)
                        .await
                        .is_none()
                    {
                        return;
                    }
                }
            }
        };
        clock::select! {
            biased;
            // cancel-safe: the connection is over.
            () = self.end.cancelled() => {}
            () = carrying => {}
        }
        // Both ends see the end at the same time.
        self.end.cancel();
    }

    /// Carries one frame; returns `None` if the connection ends with it.
    async fn pass(
        &self,
        direction: Direction,
        chance: &mut Random,
        frame: Frame,
        to: &mut WriteHalf<DuplexStream>,
    ) -> Option<()> {
        let message = frame
            .message
            .and_then(|bytes| wire::json::decode(&bytes, usize::MAX).ok());
        if let Some(message) = &message {
            // The message is recorded before it is sent, because it may be received at once.
            self.watcher.record_message(&self.node, direction, message);
        }
        // A delay is drawn for every frame, whether it is needed or not.
        let delay = chance.below(self.faults.delay * 1000 + 1);
        let (twice, last) = (
            chance.permille(self.faults.twice),
            chance.permille(self.faults.last),
        );
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
