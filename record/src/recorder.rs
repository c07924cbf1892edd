//! Records what the program sends and receives. Nothing here waits for the disk: if the queue is full, frames are counted instead.

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use tracing::warn;
use wire::{Message, kind, tunnel};

use crate::{
    Body, Connection, End, Frame, Gap, Header, Limits, Line, Side, Transport, Window,
    file::Files,
    redact::Redactor,
    redact_frame::{CLOSE, redact_frame, redact_headers},
};

/// The most lines that wait to be written.
const MAX_QUEUED_LINES: usize = 4096;
/// The most bytes of messages that wait to be written.
const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;
/// Kinds of frames that the specification of messages does not name.
const UNKNOWN: &str = "unknown";
const REQUEST: &str = "request";
const RESPONSE: &str = "response";
/// The kind of a ping of WebSocket.
pub const PING: &str = "ping";
/// The kind of a pong of WebSocket.
pub const PONG: &str = "pong";
/// The kind of bytes that are no message.
pub const MALFORMED: &str = "malformed";
/// How long lines wait for their block. After `kill -9`, the recording lacks this much.
const FLUSH_INTERVAL: Duration = Duration::from_millis(500);

/// What is recorded, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file.
    pub path: PathBuf,
    /// The bounds.
    pub limits: Limits,
    /// The program, with its version.
    pub program: String,
    /// The side of the program.
    pub side: Side,
    /// Whether secrets, tokens and the data of streams are replaced.
    pub redact: bool,
}

/// Why a recording cannot be started.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot record to {path}: {why}; choose another file, in a directory that this program may write to"
)]
pub struct StartError {
    path: String,
    why: io::Error,
}

/// Records connections; cheap to clone. The default records nothing.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Option<Arc<Sinks>>);

/// Where lines go.
#[derive(Debug)]
struct Sinks {
    file: Option<Arc<Queue>>,
    window: Option<Window>,
    connections: AtomicU64,
    clock: Clock,
}

/// The lines that wait to be written to a file.
#[derive(Debug)]
struct Queue {
    lines: SyncSender<Command>,
    queued: AtomicUsize,
    lost: AtomicU64,
    clock: Clock,
}

#[derive(Debug)]
enum Command {
    /// A line, and the bytes that it counts in the queue.
    Line(Line, usize),
    /// Write all lines, and end.
    Finish,
}

/// The time as nanoseconds since 1970 that never goes back.
#[derive(Clone, Copy, Debug)]
struct Clock {
    begun: Instant,
    unix: u64,
}

impl Clock {
    fn new() -> Self {
        let unix = clock::system_now().duration_since(UNIX_EPOCH);
        Self {
            begun: Instant::now(),
            unix: nanoseconds(unix.unwrap_or_default()),
        }
    }

    fn now(&self) -> u64 {
        self.unix.saturating_add(nanoseconds(self.begun.elapsed()))
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A recording that is being written; finish it before the program ends.
#[derive(Debug)]
pub struct Recording {
    recorder: Recorder,
    thread: JoinHandle<()>,
}

impl Recording {
    /// Starts a recording.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn start(options: Options) -> Result<Self, StartError> {
        let failure = |why| StartError {
            path: options.path.display().to_string(),
            why,
        };
        let header = Header::new(&options.program, options.side, options.redact);
        let files = Files::create(&options.path, options.limits, header).map_err(failure)?;
        let (lines, queue) = sync_channel(MAX_QUEUED_LINES);
        let clock = Clock::new();
        let shared = Arc::new(Queue {
            lines,
            queued: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
            clock,
        });
        let worker = Worker {
            files,
            redactor: options.redact.then(Redactor::default),
            path: options.path.clone(),
            shared: shared.clone(),
        };
        let thread = thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || worker.run(&queue))
            .map_err(failure)?;
        Ok(Self {
            recorder: Recorder(Some(Arc::new(Sinks {
                file: Some(shared),
                window: None,
                connections: AtomicU64::new(0),
                clock,
            }))),
            thread,
        })
    }

    /// Returns the handle for the parts of the program.
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Writes all lines and closes the file.
    pub fn finish(self) {
        let file = self
            .recorder
            .0
            .as_ref()
            .and_then(|sinks| sinks.file.as_ref());
        if let Some(file) = file {
            let _ = file.lines.send(Command::Finish);
        }
        let _ = self.thread.join();
    }
}

/// Writes the lines.
struct Worker {
    files: Files,
    /// `None` if secrets are recorded.
    redactor: Option<Redactor>,
    path: PathBuf,
    shared: Arc<Queue>,
}

impl Worker {
    fn run(mut self, queue: &Receiver<Command>) {
        if let Err(error) = self.record(queue) {
            warn!(
                file = %self.path.display(),
                error = &error as &dyn std::error::Error,
                "failed to write the recording; recording stopped"
            );
        }
    }

    fn record(&mut self, queue: &Receiver<Command>) -> io::Result<()> {
        let mut flush_at = None;
        loop {
            let wait = flush_at.map_or(FLUSH_INTERVAL, |at: Instant| {
                at.saturating_duration_since(Instant::now())
            });
            match queue.recv_timeout(wait) {
                Ok(Command::Line(mut line, bytes)) => {
                    self.shared.queued.fetch_sub(bytes, Ordering::Relaxed);
                    if let (Some(redactor), Line::Frame(frame)) = (&self.redactor, &mut line) {
                        redact_frame(redactor, frame);
                    }
                    self.files.push(&line)?;
                    flush_at = flush_at.or_else(|| Some(Instant::now() + FLUSH_INTERVAL));
                }
                Err(RecvTimeoutError::Timeout) => {
                    flush_at = None;
                    self.report_gap()?;
                    self.files.flush()?;
                }
                Ok(Command::Finish) | Err(RecvTimeoutError::Disconnected) => {
                    self.report_gap()?;
                    return self.files.flush();
                }
            }
        }
    }

    /// Records how many frames the queue had no room for.
    fn report_gap(&mut self) -> io::Result<()> {
        let frames = self.shared.lost.swap(0, Ordering::Relaxed);
        if frames == 0 {
            return Ok(());
        }
        let time = self.shared.clock.now();
        self.files.push(&Line::Gap(Gap { time, frames }))
    }
}

/// Returns the kinds that frames can have.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    let sessions = kind::UP.iter().map(|kind| kind.name);
    let sessions = sessions.chain(kind::DOWN.iter().map(|kind| kind.name));
    let tunnels = tunnel::Kind::ALL.iter().map(|kind| kind.name());
    sessions
        .chain(tunnels)
        .chain([UNKNOWN, REQUEST, RESPONSE, PING, PONG, CLOSE, MALFORMED])
}

/// Returns the kind of a message, by its name in the specification.
pub fn kind_of(from: Side, message: &Message) -> &'static str {
    let (route, content) = (&message.route, &message.content);
    let found = match from {
        Side::Edge => kind::find(kind::UP, route, content).map(|kind| kind.name),
        Side::Cloud => kind::find(kind::DOWN, route, content).map(|kind| kind.name),
    };
    found.unwrap_or(UNKNOWN)
}

/// Returns the headers of a request or response, for [`Recorder::connect`] and [`ConnectionRecorder::request`].
pub fn headers(headers: &http::HeaderMap) -> BTreeMap<String, String> {
    let mut all = BTreeMap::<String, String>::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        all.entry(name.to_string())
            .and_modify(|before| *before = format!("{before}, {value}"))
            .or_insert_with(|| value.into_owned());
    }
    all
}

impl Recorder {
    /// Returns a recorder that also writes to a window. Call it before connections are recorded.
    #[must_use]
    pub fn with_window(&self, window: Window) -> Self {
        let sinks = self.0.as_ref();
        Self(Some(Arc::new(Sinks {
            file: sinks.and_then(|sinks| sinks.file.clone()),
            window: Some(window),
            connections: AtomicU64::new(0),
            clock: sinks.map_or_else(Clock::new, |sinks| sinks.clock),
        })))
    }

    /// Records a new connection.
    pub fn connect(
        &self,
        transport: Transport,
        node: &str,
        peer: &str,
        headers: BTreeMap<String, String>,
    ) -> ConnectionRecorder {
        let Some(shared) = &self.0 else {
            return ConnectionRecorder::default();
        };
        let id = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let mut headers = headers;
        redact_headers(&mut headers);
        shared.push(
            Line::Connection(Connection {
                id,
                time: shared.clock.now(),
                transport,
                node: node.to_owned(),
                peer: peer.to_owned(),
                headers,
            }),
            0,
        );
        ConnectionRecorder(Some(Arc::new(Open {
            id,
            shared: shared.clone(),
        })))
    }
}

impl Sinks {
    fn push(&self, line: Line, bytes: usize) {
        if let Some(window) = &self.window {
            window.push(&line);
        }
        if let Some(file) = &self.file {
            file.push(line, bytes);
        }
    }
}

impl Queue {
    fn push(&self, line: Line, bytes: usize) {
        let is_frame = matches!(line, Line::Frame(_));
        if is_frame && self.queued.load(Ordering::Relaxed) + bytes > MAX_QUEUED_BYTES {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.queued.fetch_add(bytes, Ordering::Relaxed);
        match self.lines.try_send(Command::Line(line, bytes)) {
            Ok(()) => {}
            // after a failure of the disk, which was logged, nobody counts
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.queued.fetch_sub(bytes, Ordering::Relaxed);
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Records one connection; cheap to clone. The connection has ended when the last clone is dropped.
#[derive(Clone, Debug, Default)]
pub struct ConnectionRecorder(Option<Arc<Open>>);

#[derive(Debug)]
struct Open {
    id: u64,
    shared: Arc<Sinks>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let end = End {
            connection: self.id,
            time: self.shared.clock.now(),
        };
        self.shared.push(Line::End(end), 0);
    }
}

impl ConnectionRecorder {
    /// Records a message of `size` bytes.
    pub fn message(&self, from: Side, message: &Message, size: usize) {
        self.frame(from, size, || {
            let body = Body::Message(Box::new(message.clone()));
            (kind_of(from, message), body)
        });
    }

    /// Records a frame of a tunnel.
    pub fn tunnel(&self, from: Side, frame: &tunnel::Frame) {
        self.frame(from, frame.data.len(), || {
            let body = Body::Tunnel {
                stream: frame.id,
                kind: frame.kind.number(),
                data: Some(STANDARD.encode(&frame.data)),
            };
            (frame.kind.name(), body)
        });
    }

    /// Records an HTTP request.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: BTreeMap<String, String>,
        body: &[u8],
    ) {
        self.frame(Side::Edge, body.len(), || {
            let body = Body::Request {
                method: method.to_owned(),
                path: path.to_owned(),
                headers,
                body: STANDARD.encode(body),
            };
            (REQUEST, body)
        });
    }

    /// Records the response.
    pub fn response(&self, status: u16, body: &[u8]) {
        self.frame(Side::Cloud, body.len(), || {
            let body = Body::Response {
                status,
                body: STANDARD.encode(body),
            };
            (RESPONSE, body)
        });
    }

    /// Records bytes that are no message: control frames of WebSocket, and malformed ones. `kind` says which.
    pub fn raw(&self, from: Side, kind: &str, bytes: &[u8]) {
        self.frame(from, bytes.len(), || {
            (kind, Body::Raw(STANDARD.encode(bytes)))
        });
    }

    fn frame<'k>(&self, from: Side, size: usize, body: impl FnOnce() -> (&'k str, Body)) {
        let Some(open) = &self.0 else {
            return;
        };
        let (kind, body) = body();
        let frame = Frame {
            connection: open.id,
            time: open.shared.clock.now(),
            from,
            size: size as u64,
            kind: kind.to_owned(),
            body,
        };
        open.shared.push(Line::Frame(Box::new(frame)), size);
    }
}
