//! One tunnel, from its upgrade to its end: reads and writes frames, and runs a task for each stream.

use std::{io, time::Duration};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use limits::timeout_unless_stalled;
use record::{ConnectionRecorder, Side, Transport};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    sync::mpsc,
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::debug;
use wire::{
    tunnel::{Frame, FrameError, Kind, MAX_FRAME, PING},
    websocket::{Decoder, Message, Role, encode, reserve_for_read},
};

use super::{
    Config, RequestHandler,
    request::request,
    stream::{self, StreamSender},
    streams::{OpenError, Streams},
};

/// The most messages to the cloud that wait. Each stream waits for its turn, so that none is behind more than one message of
/// each other.
const MAX_QUEUED_FRAMES: usize = 4;
/// The most pings of the cloud that wait for an answer; further ones get none.
const MAX_QUEUED_PONGS: usize = 4;
/// The most bytes of one write, however many messages they are.
const MAX_WRITE_BYTES: usize = 32 * 1024;
/// EdgeCore's interval of pings; shorter if the read deadline is.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// How long the closing handshake and the ends of streams may take.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The most bytes of the cloud's reason that are shown.
const MAX_REASON: usize = 200;

/// How a tunnel has ended.
#[derive(Debug)]
pub(super) enum TunnelEnd {
    /// The agent ends.
    Shutdown,
    /// The cloud closed it, with this reason.
    Closed(String),
    /// The connection broke, or the cloud violated the protocol.
    Lost(io::Error),
}

/// Serves a tunnel on `io`, to a cloud with this window for each stream, until it ends; all its streams end with it.
pub(super) async fn run<T: AsyncRead + AsyncWrite>(
    io: T,
    window: Option<usize>,
    config: &Config,
    api: &impl RequestHandler,
    shutdown: &CancellationToken,
) -> TunnelEnd {
    let (mut reader, mut writer) = split(io);
    let (frames, outbound) = mpsc::channel(MAX_QUEUED_FRAMES);
    let (pongs, asked) = mpsc::channel(MAX_QUEUED_PONGS);
    let stop = shutdown.child_token();
    let recorder = config.recorder.connect(
        Transport::Tunnel,
        &config.node_name,
        &config.server.to_string(),
        Default::default(),
    );
    let mut tunnel = Tunnel {
        api: api.clone(),
        frames,
        pongs,
        streams: Streams::new(window),
        tasks: TaskTracker::new(),
        stop: stop.clone(),
        recorder: recorder.clone(),
    };
    let ended = clock::select! {
        // none of them goes on after another has ended
        ended = tunnel.read(&mut reader, config.read_deadline) => ended,
        error = write(&mut writer, outbound, asked, (config, &recorder)) => TunnelEnd::Lost(error),
        () = shutdown.cancelled() => TunnelEnd::Shutdown,
    };
    stop.cancel();
    tunnel.tasks.close();
    let goodbye = async {
        if !matches!(ended, TunnelEnd::Lost(_)) {
            let mut out = BytesMut::new();
            // normal closure
            encode(
                &mut out,
                &Message::Close(Bytes::from_static(&[0x03, 0xe8])),
                Some(clock::rng().random()),
            );
            writer.write_all(&out).await?;
            writer.flush().await?;
        }
        tunnel.tasks.wait().await;
        io::Result::Ok(())
    };
    // a cloud that does not read needs no closing handshake
    let _ = timeout(CLOSE_TIMEOUT, goodbye).await;
    ended
}

/// The reading half.
struct Tunnel<A> {
    api: A,
    frames: mpsc::Sender<Frame>,
    pongs: mpsc::Sender<Bytes>,
    streams: Streams,
    tasks: TaskTracker,
    /// Ends all streams.
    stop: CancellationToken,
    recorder: ConnectionRecorder,
}

impl<A: RequestHandler> Tunnel<A> {
    async fn read(
        &mut self,
        reader: &mut (impl AsyncRead + Unpin),
        deadline: Duration,
    ) -> TunnelEnd {
        let mut decoder = Decoder::new(Role::Client, MAX_FRAME);
        let mut input = BytesMut::new();
        loop {
            loop {
                match decoder.next(&mut input) {
                    Ok(Some(message)) => {
                        if let Some(ended) = self.message(message).await {
                            return ended;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        return TunnelEnd::Lost(io::Error::new(io::ErrorKind::InvalidData, error));
                    }
                }
            }
            reserve_for_read(&mut input);
            match timeout_unless_stalled(deadline, reader.read_buf(&mut input)).await {
                Ok(Ok(0)) => return TunnelEnd::Lost(io::ErrorKind::UnexpectedEof.into()),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return TunnelEnd::Lost(error),
                Err(_) => {
                    let why = format!("nothing came from the cloud within {deadline:?}");
                    return TunnelEnd::Lost(io::Error::new(io::ErrorKind::TimedOut, why));
                }
            }
        }
    }

    async fn message(&mut self, message: Message) -> Option<TunnelEnd> {
        match message {
            Message::Text(payload) | Message::Binary(payload) => match Frame::decode(payload) {
                Ok(frame) => {
                    self.recorder.tunnel(Side::Cloud, &frame);
                    return self.frame(frame).await;
                }
                // as EdgeCore does
                Err(FrameError::Kind(number)) => {
                    debug!(number, "frame of an unknown type ignored")
                }
                Err(error) => debug!(%error, "malformed frame ignored"),
            },
            // a cloud that pings faster than it can be answered does not get every answer
            Message::Ping(payload) => drop(self.pongs.try_send(payload)),
            Message::Pong(_) => {}
            Message::Close(_) => {
                let why = "the cloud closed the connection";
                return Some(TunnelEnd::Lost(io::Error::new(
                    io::ErrorKind::ConnectionAborted,
                    why,
                )));
            }
        }
        None
    }

    async fn frame(&mut self, frame: Frame) -> Option<TunnelEnd> {
        let taken = frame.window_bytes();
        let Frame { id, kind, data } = frame;
        match kind {
            Kind::Logs | Kind::Exec | Kind::Metrics | Kind::Attach => {
                self.open(id, kind, &data).await
            }
            Kind::Data => self.streams.deliver(id, &data).await,
            Kind::Window => self.streams.add_credit(id, taken),
            Kind::RemoveConnect => self.streams.end(id),
            Kind::CloseConnect => {
                let why = String::from_utf8_lossy(&data);
                return Some(TunnelEnd::Closed(why.chars().take(MAX_REASON).collect()));
            }
        }
        None
    }

    async fn open(&mut self, id: u64, kind: Kind, data: &[u8]) {
        // a refusal is short
        let mut outbound = StreamSender {
            id,
            frames: self.frames.clone(),
            credit: None,
        };
        let Some(request) = request(kind, data) else {
            debug!(id, "malformed request ignored");
            return outbound
                .refuse(kind, StatusCode::BAD_REQUEST, "malformed request")
                .await;
        };
        match self.streams.open(id, &self.stop) {
            Ok(place) => {
                outbound.credit.clone_from(&place.credit);
                let api = self.api.clone();
                self.tasks.spawn(componentbase::in_span(stream::run(
                    kind, request, api, place, outbound,
                )));
            }
            // an answer would end the existing stream
            Err(OpenError::AlreadyOpen) => {
                debug!(id, "request with a used number ignored")
            }
            Err(OpenError::TooMany) => {
                let why = "too many requests at the same time on this node";
                outbound
                    .refuse(kind, StatusCode::TOO_MANY_REQUESTS, why)
                    .await;
            }
        }
    }
}

/// Writes frames of streams, pongs, and pings, until writing fails.
async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    mut frames: mpsc::Receiver<Frame>,
    mut pongs: mpsc::Receiver<Bytes>,
    (config, recorder): (&Config, &ConnectionRecorder),
) -> io::Error {
    let mut pings = interval(PING_INTERVAL.min(config.read_deadline / 3));
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let mut out = BytesMut::new();
        let mut put = |message: &Message| encode(&mut out, message, Some(clock::rng().random()));
        let text = |frame: Frame| {
            recorder.tunnel(Side::Edge, &frame);
            Message::Text(frame.encode().into())
        };
        clock::select! {
            // cancel-safe: what is not taken stays where it is
            Some(frame) = frames.recv() => put(&text(frame)),
            Some(payload) = pongs.recv() => put(&Message::Pong(payload)),
            _ = pings.tick() => put(&Message::Ping(Bytes::from_static(PING))),
        }
        while out.len() < MAX_WRITE_BYTES
            && let Ok(frame) = frames.try_recv()
        {
            encode(&mut out, &text(frame), Some(clock::rng().random()));
        }
        let writing = async {
            writer.write_all(&out).await?;
            writer.flush().await
        };
        match timeout(config.write_deadline, writing).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error,
            Err(_) => {
                let why = format!("the cloud took nothing within {:?}", config.write_deadline);
                return io::Error::new(io::ErrorKind::TimedOut, why);
            }
        }
    }
}
