//! One tunnel, from its upgrade to its end: reads frames for its streams, writes what streams send, and pings.

use std::{io, pin::pin, time::Duration};

use bytes::{Bytes, BytesMut};
use limits::timeout_unless_stalled;
use record::{ConnectionRecorder, Side};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    sync::mpsc,
    time::{MissedTickBehavior, interval, sleep, sleep_until, timeout},
};
use tracing::debug;
use wire::{
    tunnel::{Frame, FrameError, Kind, MAX_FRAME},
    websocket::{Decoder, Message, Role, encode, reserve_for_read},
};

use super::{
    inbox::End,
    metrics::StreamMetrics,
    stream::Streams,
    table::{TunnelEntry, close},
};
use crate::faults::{Faults, Link, LinkState};

/// The node's pings that may wait for an answer; further ones are not answered.
const MAX_PENDING_PONGS: usize = 4;
/// Ends of streams that wait to be sent to the node.
const MAX_PENDING_ENDS: usize = 64;
/// Bytes written at a time, however many frames they are.
const WRITE_BATCH_BYTES: usize = 32 * 1024;
/// How long sending the close frame may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The payload of pings.
const PING_PAYLOAD: &[u8] = b"cloudsim";

/// The intervals and timeouts of a tunnel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// The interval of pings, which every node answers.
    pub(super) ping: Duration,
    /// How long nothing may be received before the tunnel is closed.
    pub(super) read: Duration,
    /// How long a write may take before the tunnel is closed.
    pub(super) write: Duration,
}

impl Default for Timing {
    /// EdgeCore pings every 5 s and closes its end after 15 s of silence.
    fn default() -> Self {
        Self {
            ping: Duration::from_secs(10),
            read: Duration::from_secs(30),
            write: Duration::from_secs(15),
        }
    }
}

/// The reason for which a tunnel has ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum TunnelEnd {
    /// The cloud has ended it: on shutdown, for a newer tunnel, or because the node may have none.
    #[error("closed by cloudsim")]
    Stopped,
    /// The node has closed it.
    #[error("closed by the node")]
    Closed,
    /// A fault has cut the link.
    #[error("the link is cut by fault injection")]
    Cut,
    /// The connection broke, or the node violated the protocol.
    #[error("{0}")]
    Lost(#[from] io::Error),
}

/// Serves a tunnel on `io` until it ends; all its streams end with it.
pub(super) async fn run<T: AsyncRead + AsyncWrite>(
    io: T,
    node: &str,
    mut entry: TunnelEntry,
    faults: &Faults,
    timing: Timing,
) -> TunnelEnd {
    let (mut reader, mut writer) = split(io);
    let (pongs, asked) = mpsc::channel(MAX_PENDING_PONGS);
    let (late, told) = mpsc::channel(MAX_PENDING_ENDS);
    let (stop, metrics) = (entry.stop.clone(), entry.metrics().clone());
    let recorder = entry.recorder.clone();
    let ended = {
        let inbound = Inbound {
            streams: &entry.streams,
            metrics: &metrics,
            pongs,
            late,
            recorder: &recorder,
        };
        let queues = Queues {
            frames: &mut entry.outbound,
            streams: &entry.streams,
            pongs: asked,
            late: told,
            recorder: &recorder,
        };
        let work = async {
            clock::select! {
                // when one of them has ended, none may go on
                ended = inbound.read(&mut reader, timing.read) => ended,
                error = write(&mut writer, queues, &metrics, timing) => TunnelEnd::Lost(error),
            }
        };
        clock::select! {
            // cancel-safe: the tunnel ends
            () = stop.cancelled() => TunnelEnd::Stopped,
            ended = on_link(work, node, faults, timing.read) => ended,
        }
    };
    if matches!(ended, TunnelEnd::Stopped) {
        // a node that accepts nothing is not sent a close frame
        let _ = timeout(CLOSE_TIMEOUT, send_close(&mut writer, entry.close_reason())).await;
    }
    ended
}

/// Runs the tunnel's work while the node's link is up.
async fn on_link(
    work: impl Future<Output = TunnelEnd>,
    node: &str,
    faults: &Faults,
    silence: Duration,
) -> TunnelEnd {
    let mut work = pin!(work);
    let mut changes = faults.changes();
    let mut swallowed = false;
    loop {
        changes.borrow_and_update();
        let LinkState { link, until } =
            LinkState::of(faults.on(node).as_ref(), clock::Instant::now());
        match link {
            Link::Cut => return TunnelEnd::Cut,
            // what a half-open link has swallowed does not come back
            Link::Up if swallowed => return TunnelEnd::Cut,
            Link::Up => {}
            Link::HalfOpen => swallowed = true,
        }
        let until = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        clock::select! {
            ended = &mut work, if !swallowed => return ended,
            // cancel-safe: they hold no data; the sender lives in the faults
            _ = changes.changed() => {}
            () = until => {}
            () = sleep(silence), if swallowed => return TunnelEnd::Cut,
        }
    }
}

async fn send_close(writer: &mut (impl AsyncWrite + Unpin), why: Option<&str>) -> io::Result<()> {
    let mut out = BytesMut::new();
    if let Some(why) = why {
        encode(&mut out, &Message::Text(close(why).encode().into()), None);
    }
    // going away
    encode(
        &mut out,
        &Message::Close(Bytes::from_static(&[0x03, 0xe9])),
        None,
    );
    writer.write_all(&out).await?;
    writer.shutdown().await
}

/// The reading half.
struct Inbound<'a> {
    streams: &'a Streams,
    metrics: &'a StreamMetrics,
    pongs: mpsc::Sender<Bytes>,
    /// Streams that were ended here, for the writing half.
    late: mpsc::Sender<u64>,
    recorder: &'a ConnectionRecorder,
}

impl Inbound<'_> {
    async fn read(&self, reader: &mut (impl AsyncRead + Unpin), deadline: Duration) -> TunnelEnd {
        let mut decoder = Decoder::new(Role::Server, MAX_FRAME);
        let mut input = BytesMut::new();
        loop {
            loop {
                match decoder.next(&mut input) {
                    Ok(Some(Message::Close(_))) => return TunnelEnd::Closed,
                    Ok(Some(message)) => self.message(message).await,
                    Ok(None) => break,
                    Err(error) => return io::Error::new(io::ErrorKind::InvalidData, error).into(),
                }
            }
            reserve_for_read(&mut input);
            match timeout_unless_stalled(deadline, reader.read_buf(&mut input)).await {
                Ok(Ok(0)) => return TunnelEnd::Closed,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return error.into(),
                Err(_) => {
                    let why = format!("nothing came from the node within {deadline:?}");
                    return io::Error::new(io::ErrorKind::TimedOut, why).into();
                }
            }
        }
    }

    async fn message(&self, message: Message) {
        match message {
            Message::Text(payload) | Message::Binary(payload) => match Frame::decode(payload) {
                Ok(frame) => {
                    self.recorder.tunnel(Side::Edge, &frame);
                    self.frame(frame).await;
                }
                Err(FrameError::Kind(number)) => {
                    debug!(number, "frame of an unknown type ignored")
                }
                Err(error) => debug!(%error, "malformed frame ignored"),
            },
            // a node that pings faster than it can be answered is not answered each time
            Message::Ping(payload) => drop(self.pongs.try_send(payload)),
            Message::Pong(_) | Message::Close(_) => {}
        }
    }

    async fn frame(&self, frame: Frame) {
        let taken = frame.window_bytes();
        let Frame { id, kind, data } = frame;
        match kind {
            Kind::Data => {
                self.metrics.count_received(data.len());
                if !self.streams.deliver(id, &data).await {
                    debug!(id, "stream stalled: its data is not read; stream closed");
                    self.queue_end(id);
                }
            }
            Kind::Window => {
                if !self.streams.window_update(id, taken) {
                    debug!(id, "stream window exceeded by the node; stream closed");
                    self.queue_end(id);
                }
            }
            Kind::RemoveConnect => self.streams.end(id, End::Closed),
            Kind::Logs | Kind::Exec | Kind::Metrics | Kind::Attach | Kind::CloseConnect => {
                debug!(
                    id,
                    kind = kind.number(),
                    "request of a node in its tunnel ignored"
                );
            }
        }
    }

    /// Queues the end of a stream for the node. If the queue is full, the node continues to send, and its data is dropped.
    fn queue_end(&self, id: u64) {
        let _ = self.late.try_send(id);
    }
}

/// What is to be written.
struct Queues<'a> {
    frames: &'a mut mpsc::Receiver<Frame>,
    streams: &'a Streams,
    pongs: mpsc::Receiver<Bytes>,
    late: mpsc::Receiver<u64>,
    recorder: &'a ConnectionRecorder,
}

/// Writes streams' data, pongs and pings until that fails.
async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    queues: Queues<'_>,
    metrics: &StreamMetrics,
    timing: Timing,
) -> io::Error {
    let Queues {
        frames,
        streams,
        mut pongs,
        mut late,
        recorder,
    } = queues;
    let count = |frame: &Frame| {
        recorder.tunnel(Side::Cloud, frame);
        if frame.kind == Kind::Data {
            metrics.count_sent(frame.data.len());
        }
    };
    let mut pings = interval(timing.ping);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let mut out = BytesMut::new();
        let mut put = |frame: &Frame| {
            count(frame);
            encode(&mut out, &Message::Text(frame.encode().into()), None);
        };
        clock::select! {
            // cancel-safe: what is not taken stays where it is
            Some(frame) = frames.recv() => put(&frame),
            frame = streams.read() => put(&frame),
            Some(id) = late.recv() => put(&Frame::new(id, Kind::RemoveConnect, Bytes::new())),
            Some(payload) = pongs.recv() => encode(&mut out, &Message::Pong(payload), None),
            _ = pings.tick() => encode(&mut out, &Message::Ping(Bytes::from_static(PING_PAYLOAD)), None),
        }
        while out.len() < WRITE_BATCH_BYTES
            && let Ok(frame) = frames.try_recv()
        {
            count(&frame);
            encode(&mut out, &Message::Text(frame.encode().into()), None);
        }
        let writing = async {
            writer.write_all(&out).await?;
            writer.flush().await
        };
        match timeout(timing.write, writing).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error,
            Err(_) => {
                let why = format!("the node took nothing within {:?}", timing.write);
                return io::Error::new(io::ErrorKind::TimedOut, why);
            }
        }
    }
}
