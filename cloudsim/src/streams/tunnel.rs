//! One tunnel, from its upgrade to its end: reads frames and hands them to their streams, writes what streams send, and pings.

use std::{io, pin::pin, time::Duration};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    sync::mpsc,
    time::{MissedTickBehavior, interval, sleep, sleep_until, timeout},
};
use tracing::debug;
use wire::{
    tunnel::{Frame, FrameError, Kind, MAX_FRAME},
    websocket::{Decoder, Message, Role, encode},
};

use super::{
    inbox::End,
    stream::Streams,
    table::{Entry, close},
};
use crate::{
    faults::{Faults, Link, Standing, now},
    metrics::StreamMetrics,
};

/// Pings of the node that are not yet answered; further ones get no answer.
const PONGS: usize = 4;
/// Ends of streams that the reader has to tell the node of.
const ENDS: usize = 64;
/// Bytes that are written at a time, however many frames they are.
const BATCH: usize = 32 * 1024;
/// Bytes read at a time.
const READ: usize = 16 * 1024;
/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);
/// What pings carry.
const PING: &[u8] = b"cloudsim";

/// The times of a tunnel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// Between two pings, which every node answers.
    pub(super) ping: Duration,
    /// A tunnel on which nothing came for so long is given up.
    pub(super) read: Duration,
    /// One that takes nothing for so long, too.
    pub(super) write: Duration,
}

impl Default for Timing {
    /// EdgeCore pings every 5 s and gives its end up after 15.
    fn default() -> Self {
        Self { ping: Duration::from_secs(10), read: Duration::from_secs(30), write: Duration::from_secs(15) }
    }
}

/// How a tunnel has ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    /// The cloud ends it: it is stopped, the node has a newer tunnel, or may have none.
    #[error("it was ended here")]
    Stopped,
    /// The node has closed it.
    #[error("the node closed it")]
    Closed,
    /// The link is cut on purpose.
    #[error("the link is cut, on purpose")]
    Cut,
    /// The connection broke, or the node does not speak the protocol.
    #[error("{0}")]
    Lost(#[from] io::Error),
}

/// Serves a tunnel on `io` until it ends; all its streams end with it.
pub(super) async fn run<T: AsyncRead + AsyncWrite>(
    io: T,
    node: &str,
    mut entry: Entry,
    faults: &Faults,
    timing: Timing,
) -> Ended {
    let (mut reader, mut writer) = split(io);
    let (pongs, asked) = mpsc::channel(PONGS);
    let (late, told) = mpsc::channel(ENDS);
    let (stop, metrics) = (entry.stop.clone(), entry.metrics().clone());
    let ended = {
        let inbound = Inbound { streams: &entry.streams, metrics: &metrics, pongs, late };
        let queues =
            Queues { frames: &mut entry.outbound, streams: &entry.streams, pongs: asked, late: told };
        let work = async {
            tokio::select! {
                // none of them goes on after another has ended
                ended = inbound.read(&mut reader, timing.read) => ended,
                error = write(&mut writer, queues, &metrics, timing) => Ended::Lost(error),
            }
        };
        tokio::select! {
            // cancel-safe: the tunnel ends
            () = stop.cancelled() => Ended::Stopped,
            ended = on_link(work, node, faults, timing.read) => ended,
        }
    };
    if matches!(ended, Ended::Stopped) {
        // a node that takes nothing needs no goodbye
        let _ = timeout(GOODBYE, goodbye(&mut writer, entry.farewell())).await;
    }
    ended
}

/// Does the tunnel's work as long as the node's link stands.
async fn on_link(work: impl Future<Output = Ended>, node: &str, faults: &Faults, silence: Duration) -> Ended {
    let mut work = pin!(work);
    let mut changes = faults.changes();
    let mut swallowed = false;
    loop {
        changes.borrow_and_update();
        let Standing { link, until } = Standing::of(faults.on(node).as_ref(), now());
        match link {
            Link::Cut => return Ended::Cut,
            // what was swallowed does not come back
            Link::Up if swallowed => return Ended::Cut,
            Link::Up => {}
            Link::HalfOpen => swallowed = true,
        }
        let until = async {
            match until {
                Some(until) => sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = &mut work, if !swallowed => return ended,
            // cancel-safe, all: they hold no data; the sender lives in the faults
            _ = changes.changed() => {}
            () = until => {}
            () = sleep(silence), if swallowed => return Ended::Cut,
        }
    }
}

async fn goodbye(writer: &mut (impl AsyncWrite + Unpin), why: Option<&str>) -> io::Result<()> {
    let mut out = BytesMut::new();
    if let Some(why) = why {
        encode(&mut out, &Message::Text(close(why).encode().into()), None);
    }
    // going away
    encode(&mut out, &Message::Close(Bytes::from_static(&[0x03, 0xe9])), None);
    writer.write_all(&out).await?;
    writer.shutdown().await
}

/// The reading half.
struct Inbound<'a> {
    streams: &'a Streams,
    metrics: &'a StreamMetrics,
    pongs: mpsc::Sender<Bytes>,
    /// Streams that were ended here.
    late: mpsc::Sender<u64>,
}

impl Inbound<'_> {
    async fn read(&self, reader: &mut (impl AsyncRead + Unpin), deadline: Duration) -> Ended {
        let mut decoder = Decoder::new(Role::Server, MAX_FRAME);
        let mut input = BytesMut::new();
        loop {
            loop {
                match decoder.next(&mut input) {
                    Ok(Some(Message::Close(_))) => return Ended::Closed,
                    Ok(Some(message)) => self.message(message).await,
                    Ok(None) => break,
                    Err(error) => return io::Error::new(io::ErrorKind::InvalidData, error).into(),
                }
            }
            if input.is_empty() {
                // a tunnel that is idle holds little memory
                input = BytesMut::new();
            }
            input.reserve(READ);
            match timeout(deadline, reader.read_buf(&mut input)).await {
                Ok(Ok(0)) => return Ended::Closed,
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
                Ok(frame) => self.frame(frame).await,
                Err(FrameError::Kind(number)) => debug!(number, "a frame of an unknown type is ignored"),
                Err(error) => debug!(%error, "a message that is no frame is ignored"),
            },
            // a node that asks faster than it can be answered is not answered each time
            Message::Ping(payload) => drop(self.pongs.try_send(payload)),
            Message::Pong(_) | Message::Close(_) => {}
        }
    }

    async fn frame(&self, frame: Frame) {
        let taken = frame.taken();
        let Frame { id, kind, data } = frame;
        match kind {
            Kind::Data => {
                self.metrics.received(data.len());
                if !self.streams.deliver(id, &data).await {
                    debug!(id, "a stream is not read, and is ended");
                    self.tell_end(id);
                }
            }
            Kind::Window => {
                if !self.streams.taken(id, taken) {
                    debug!(id, "a node takes more of a stream than can be, which is ended");
                    self.tell_end(id);
                }
            }
            Kind::RemoveConnect => self.streams.end(id, End::Closed),
            Kind::Logs | Kind::Exec | Kind::Metrics | Kind::Attach | Kind::CloseConnect => {
                debug!(id, ?kind, "a node has nothing to ask for in a tunnel");
            }
        }
    }

    /// A stream was ended here. Where so many are waiting, the node goes on sending what is dropped.
    fn tell_end(&self, id: u64) {
        let _ = self.late.try_send(id);
    }
}

/// What is to be written.
struct Queues<'a> {
    frames: &'a mut mpsc::Receiver<Frame>,
    streams: &'a Streams,
    pongs: mpsc::Receiver<Bytes>,
    late: mpsc::Receiver<u64>,
}

/// Writes what streams send, pongs, and pings, until that fails.
async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    queues: Queues<'_>,
    metrics: &StreamMetrics,
    timing: Timing,
) -> io::Error {
    let Queues { frames, streams, mut pongs, mut late } = queues;
    let mut pings = interval(timing.ping);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let mut out = BytesMut::new();
        let mut put = |frame: &Frame| {
            if frame.kind == Kind::Data {
                metrics.sent(frame.data.len());
            }
            encode(&mut out, &Message::Text(frame.encode().into()), None);
        };
        tokio::select! {
            // cancel-safe, all: what is not taken stays where it is
            Some(frame) = frames.recv() => put(&frame),
            frame = streams.read() => put(&frame),
            Some(id) = late.recv() => put(&Frame::new(id, Kind::RemoveConnect, Bytes::new())),
            Some(payload) = pongs.recv() => encode(&mut out, &Message::Pong(payload), None),
            _ = pings.tick() => encode(&mut out, &Message::Ping(Bytes::from_static(PING)), None),
        }
        while out.len() < BATCH
            && let Ok(frame) = frames.try_recv()
        {
            if frame.kind == Kind::Data {
                metrics.sent(frame.data.len());
            }
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
