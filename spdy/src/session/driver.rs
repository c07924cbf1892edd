//! The task that owns a connection and moves bytes between its streams and the underlying transport.

use std::{collections::BTreeMap, io, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split},
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    time::timeout,
};

use super::{
    command::Command,
    dropped::Dropped,
    half::{End, ReceivingHalf},
    incoming::Request,
    stream::Stream,
};
use crate::{Connection, Event, Headers, SendError, Status, StreamId};

/// The chunks that a stream buffers for its reader. A chunk is the result of one read of the connection, at most [`READ`] bytes.
const CHUNKS: usize = 8;
/// The bytes to read at a time.
const READ: usize = 16 * 1024;
/// No commands are taken while this number of bytes waits to be written.
const MAX_WRITTEN: usize = 64 * 1024;
/// Nothing is read while this number of bytes waits to be written, because reading adds answers to pings and refusals.
const MAX_OUTPUT: usize = 128 * 1024;
/// The most unanswered pings that are remembered; beyond it the oldest is dropped, and its caller gets an error.
const MAX_PINGS: usize = 16;
/// How long the remaining bytes may take to be written at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// The driver's state of a stream.
struct Entry {
    /// The channel to the stream's reader; `None` if the peer sends nothing more.
    chunks: Option<mpsc::Sender<Bytes>>,
    end: Arc<End>,
    /// The opener that waits for the peer to accept the stream.
    opened: Option<(oneshot::Sender<io::Result<ReceivingHalf>>, ReceivingHalf)>,
}

/// What the peer has sent and nobody has room for yet. Nothing more is read meanwhile, which holds the peer back.
enum Blocked {
    /// Bytes of a stream whose reader is slow.
    Bytes {
        id: StreamId,
        chunks: mpsc::Sender<Bytes>,
        bytes: Bytes,
        fin: bool,
    },
    /// A stream to accept, behind as many others as may wait.
    Request(Request),
}

/// The queue that is full.
enum Full {
    Bytes(mpsc::Sender<Bytes>),
    Requests(mpsc::Sender<Request>),
}

/// A place in the queue that was full; `None` if nobody reads from it any more.
enum Room {
    Bytes(Option<mpsc::OwnedPermit<Bytes>>),
    Request(Option<mpsc::OwnedPermit<Request>>),
}

/// The future that runs a connection.
pub struct Driver<T> {
    io: T,
    state: State,
    commands: mpsc::Receiver<Command>,
}

struct State {
    connection: Connection,
    entries: BTreeMap<StreamId, Entry>,
    blocked: Option<Blocked>,
    requests: mpsc::Sender<Request>,
    /// Weak, so that the connection lives as long as somebody holds a stream or a session, and the driver does not keep itself alive.
    handle: mpsc::WeakSender<Command>,
    dropped: Arc<Dropped>,
    pings: BTreeMap<u32, oneshot::Sender<()>>,
    closing: bool,
    /// The bytes that were not written when the connection was closed.
    unwritten: Bytes,
    /// Why nothing can be written any more.
    broken: Option<io::Error>,
}

impl<T> std::fmt::Debug for Driver<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

/// The event that ended a wait.
enum Step {
    Read(usize),
    Written(io::Result<usize>),
    Flushed(io::Result<()>),
    Command(Option<Command>),
    Room(Room),
    Dropped,
}

impl<T: AsyncRead + AsyncWrite> Driver<T> {
    pub(super) fn new(
        io: T,
        connection: Connection,
        commands: mpsc::Receiver<Command>,
        requests: mpsc::Sender<Request>,
        handle: mpsc::WeakSender<Command>,
        dropped: Arc<Dropped>,
    ) -> Self {
        let state = State {
            connection,
            entries: BTreeMap::new(),
            blocked: None,
            requests,
            handle,
            dropped,
            pings: BTreeMap::new(),
            closing: false,
            unwritten: Bytes::new(),
            broken: None,
        };
        Self {
            io,
            state,
            commands,
        }
    }

    /// Runs the connection until either end closes it, or until nobody holds its session or any of its streams.
    ///
    /// # Errors
    /// The peer violates the protocol, or the connection broke.
    pub async fn run(self) -> io::Result<()> {
        let Self {
            io,
            mut state,
            mut commands,
        } = self;
        let (mut reader, mut writer) = split(io);
        let ended = state.work(&mut reader, &mut writer, &mut commands).await;
        for entry in state.entries.values() {
            entry.end.lose();
        }
        state.entries.clear();
        state.blocked = None;
        commands.close();
        let flush = async {
            writer.write_all(&state.unwritten).await?;
            writer.write_all(&state.connection.take_output()).await?;
            writer.shutdown().await
        };
        // a peer that no longer reads does not need the rest
        let _ = timeout(FLUSH_TIMEOUT, flush).await;
        ended
    }
}

impl State {
    async fn work<T: AsyncRead + AsyncWrite>(
        &mut self,
        reader: &mut ReadHalf<T>,
        writer: &mut WriteHalf<T>,
        commands: &mut mpsc::Receiver<Command>,
    ) -> io::Result<()> {
        let mut input = BytesMut::new();
        let mut output = Bytes::new();
        let mut unflushed = false;
        while !self.closing {
            while self.blocked.is_none() && self.waiting(&output) < MAX_OUTPUT && !self.closing {
                let event = self.connection.receive(&mut input);
                match event.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
                    Some(event) => self.event(event),
                    None => break,
                }
            }
            if output.is_empty() {
                output = self.connection.take_output();
            }
            if self.broken.is_some() {
                // The peer no longer reads, but what it sent before is still read.
                output.clear();
            }
            let waiting = self.waiting(&output);
            let full = self.full_queue();
            let step = tokio::select! {
                // cancel-safe: unfinished work stays where it is
                read = read(reader, &mut input), if full.is_none() && waiting < MAX_OUTPUT => Step::Read(read?),
                step = write(writer, &output), if !output.is_empty() || unflushed => step,
                command = commands.recv(), if waiting < MAX_WRITTEN => Step::Command(command),
                room = reserve(&full), if full.is_some() => Step::Room(room),
                () = self.dropped.wait_for_some() => Step::Dropped,
            };
            match step {
                Step::Read(0) if self.entries.is_empty() => return Ok(()),
                Step::Read(0) => {
                    return Err(self
                        .broken
                        .take()
                        .unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()));
                }
                Step::Read(_) => {}
                Step::Written(Ok(0)) => self.broken = Some(io::ErrorKind::WriteZero.into()),
                Step::Written(Ok(written)) => {
                    unflushed = true;
                    drop(output.split_to(written));
                }
                Step::Flushed(Ok(())) => unflushed = false,
                Step::Written(Err(error)) | Step::Flushed(Err(error)) => {
                    unflushed = false;
                    self.broken = Some(error);
                }
                Step::Command(Some(command)) => self.command(command),
                Step::Command(None) => {
                    self.forget_dropped(commands);
                    self.close();
                }
                Step::Room(room) => self.unblock(room),
                Step::Dropped => self.forget_dropped(commands),
            }
        }
        // a write in progress continues with the remaining bytes
        self.unwritten = output;
        Ok(())
    }

    fn waiting(&self, output: &Bytes) -> usize {
        self.connection.output_len() + output.len()
    }

    fn close(&mut self) {
        self.connection.go_away();
        for entry in self.entries.values() {
            entry.end.reset();
        }
        self.entries.clear();
        self.closing = true;
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Open {
                headers,
                fin,
                opened,
            } => match self.connection.open(&headers, fin) {
                Ok(id) => {
                    let (chunks, half) = self.entry(id, fin);
                    let entry = Entry {
                        chunks: Some(chunks),
                        end: half.end.clone(),
                        opened: Some((opened, half)),
                    };
                    self.entries.insert(id, entry);
                }
                // the opener may have given up
                Err(error) => drop(opened.send(Err(refusal(error)))),
            },
            // a stream that has ended meanwhile cannot reply; its owner sees that by its end
            Command::Reply { id } => drop(self.connection.reply(id)),
            Command::Send { id, bytes, fin } => drop(self.connection.send(id, &bytes, fin)),
            Command::Reset { id, status } => {
                self.connection.reset(id, status);
                self.entries.remove(&id);
            }
            Command::Ping(pong) => {
                let id = self.connection.ping();
                if self.pings.len() >= MAX_PINGS {
                    self.pings.pop_first();
                }
                self.pings.insert(id, pong);
            }
            Command::Close => self.close(),
        }
    }

    fn entry(&self, id: StreamId, sends_nothing: bool) -> (mpsc::Sender<Bytes>, ReceivingHalf) {
        let (chunks, received) = mpsc::channel(CHUNKS);
        (
            chunks,
            ReceivingHalf {
                id,
                chunks: received,
                end: Arc::default(),
                sends_nothing,
            },
        )
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Opened {
                id,
                headers,
                fin,
                unidirectional,
            } => {
                self.open_stream(id, headers, fin, unidirectional);
            }
            Event::Accepted { id, fin } => {
                let Some(entry) = self.entries.get_mut(&id) else {
                    return;
                };
                let waits = entry.opened.take();
                if fin {
                    self.finish(id);
                }
                if let Some((opened, half)) = waits
                    && opened.send(Ok(half)).is_err()
                {
                    // the opener has given up
                    self.connection.reset(id, Status::Cancel);
                    self.entries.remove(&id);
                }
            }
            Event::Data { id, bytes, fin } => self.deliver(id, bytes, fin),
            Event::Reset { id, .. } => {
                if let Some(entry) = self.entries.remove(&id) {
                    entry.end.reset();
                    if let Some((opened, _)) = entry.opened {
                        let refused = io::Error::new(
                            io::ErrorKind::ConnectionRefused,
                            "the peer refused the stream",
                        );
                        // the opener may have given up
                        drop(opened.send(Err(refused)));
                    }
                }
            }
            Event::Pong(id) => {
                if let Some(pong) = self.pings.remove(&id) {
                    // the caller may have given up
                    let _ = pong.send(());
                }
            }
            Event::GoAway => self.close(),
        }
    }

    fn open_stream(&mut self, id: StreamId, headers: Headers, fin: bool, unidirectional: bool) {
        let Some(commands) = self.handle.upgrade() else {
            return self.connection.reset(id, Status::RefusedStream);
        };
        let (chunks, half) = self.entry(id, unidirectional);
        let end = half.end.clone();
        let request = Request {
            headers,
            stream: Stream::new(half, commands, self.dropped.clone()),
        };
        self.entries.insert(
            id,
            Entry {
                chunks: Some(chunks),
                end,
                opened: None,
            },
        );
        if fin {
            self.finish(id);
        }
        match self.requests.try_send(request) {
            Ok(()) => {}
            Err(TrySendError::Full(request)) => self.blocked = Some(Blocked::Request(request)),
            Err(TrySendError::Closed(request)) => self.refuse(request),
        }
    }

    /// Refuses a stream that nobody accepts. Dropping it reports it once more, which changes nothing.
    fn refuse(&mut self, request: Request) {
        let id = request.stream.id();
        self.connection.reset(id, Status::RefusedStream);
        self.entries.remove(&id);
    }

    fn full_queue(&self) -> Option<Full> {
        Some(match self.blocked.as_ref()? {
            Blocked::Bytes { chunks, .. } => Full::Bytes(chunks.clone()),
            Blocked::Request(_) => Full::Requests(self.requests.clone()),
        })
    }

    /// Records that the peer sends nothing more on a stream.
    fn finish(&mut self, id: StreamId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.end.finish();
            entry.chunks = None;
        }
    }

    fn deliver(&mut self, id: StreamId, bytes: Bytes, fin: bool) {
        let Some(chunks) = self.entries.get(&id).and_then(|entry| entry.chunks.clone()) else {
            return;
        };
        if !bytes.is_empty()
            && let Err(TrySendError::Full(bytes)) = chunks.try_send(bytes)
        {
            self.blocked = Some(Blocked::Bytes {
                id,
                chunks,
                bytes,
                fin,
            });
            return;
        }
        if fin {
            self.finish(id);
        }
    }

    /// Continues after the reader of the full queue has made room or has gone.
    fn unblock(&mut self, room: Room) {
        match (self.blocked.take(), room) {
            (Some(Blocked::Bytes { id, bytes, fin, .. }), Room::Bytes(permit)) => {
                if let Some(permit) = permit {
                    drop(permit.send(bytes));
                }
                if fin {
                    self.finish(id);
                }
            }
            (Some(Blocked::Request(request)), Room::Request(Some(permit))) => {
                drop(permit.send(request))
            }
            (Some(Blocked::Request(request)), Room::Request(None)) => self.refuse(request),
            // room is only ever made in the queue that is full
            (blocked, _) => self.blocked = blocked,
        }
    }

    /// Resets the streams whose owners have gone and that have not ended. What they have sent goes first.
    fn forget_dropped(&mut self, commands: &mut mpsc::Receiver<Command>) {
        let ids = self.dropped.take();
        while let Ok(command) = commands.try_recv() {
            self.command(command);
        }
        for id in ids {
            self.connection.reset(id, Status::Cancel);
            self.entries.remove(&id);
            if matches!(&self.blocked, Some(Blocked::Bytes { id: blocked, .. }) if *blocked == id) {
                self.blocked = None;
            }
        }
    }
}

fn refusal(error: SendError) -> io::Error {
    io::Error::other(error)
}

/// Reads bytes. Cancel-safe: nothing is read if it is dropped.
async fn read<T: AsyncRead>(reader: &mut ReadHalf<T>, input: &mut BytesMut) -> io::Result<usize> {
    input.reserve(READ);
    let mut limited = AsyncReadExt::take(reader, READ as u64);
    limited.read_buf(input).await
}

/// Writes some of the output, or flushes if there is none. Cancel-safe: it returns how much was written.
async fn write<T: AsyncWrite>(writer: &mut WriteHalf<T>, output: &Bytes) -> Step {
    if output.is_empty() {
        Step::Flushed(writer.flush().await)
    } else {
        Step::Written(writer.write(output).await)
    }
}

/// Waits for room in a queue. Cancel-safe: a place that was got is given back.
async fn reserve(full: &Option<Full>) -> Room {
    match full {
        Some(Full::Bytes(chunks)) => Room::Bytes(chunks.clone().reserve_owned().await.ok()),
        Some(Full::Requests(requests)) => {
            Room::Request(requests.clone().reserve_owned().await.ok())
        }
        None => std::future::pending().await,
    }
}
