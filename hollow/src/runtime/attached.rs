//! Who is attached to which container, and the programs of containers that wait for somebody to type.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{sync::mpsc, time::timeout};

use super::{
    command::{self, Channels, Inside},
    core::Core,
    exec, files,
    state::State,
};

/// Pieces of output that wait for one who is attached.
const QUEUE_LENGTH: usize = 16;
/// How long one who is attached may take nothing; until then the container waits, as it does in containerd.
const STALL: Duration = Duration::from_secs(5);
/// The longest line of a log; the rest is in the next record.
const MAX_LINE: usize = 16 * 1024;

/// An output of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Stdout,
    Stderr,
}

/// A piece of output.
pub(super) type Piece = (Source, Bytes);

/// Containers to which somebody is attached, or that have a program.
#[derive(Default)]
pub(super) struct Attached(Mutex<BTreeMap<String, Entry>>);

#[derive(Default)]
struct Entry {
    readers: Vec<mpsc::Sender<Piece>>,
    program: Option<Program>,
}

/// A program that runs.
struct Program {
    /// `None`: its input has ended.
    input: Option<mpsc::Sender<Bytes>>,
    /// What it has printed of its line: a prompt.
    line: Vec<u8>,
}

/// A place at which somebody is attached.
pub(super) struct Attachment {
    pub(super) output: mpsc::Receiver<Piece>,
    /// Where the container reads.
    pub(super) input: Option<mpsc::Sender<Bytes>>,
}

impl Attached {
    /// Attaches to a container: its output from now on, beginning with the line that is not ended.
    pub(super) fn attach(&self, id: &str) -> Attachment {
        let (sender, output) = mpsc::channel(QUEUE_LENGTH);
        let mut all = self.0.lock();
        all.retain(|_, entry| entry.is_needed());
        let entry = all.entry(id.to_owned()).or_default();
        entry.readers.retain(|reader| !reader.is_closed());
        let input = entry.program.as_ref().and_then(|program| program.input.clone());
        if let Some(program) = entry.program.as_ref().filter(|program| !program.line.is_empty()) {
            // it has room: nothing was sent
            let _ = sender.try_send((Source::Stdout, Bytes::copy_from_slice(&program.line)));
        }
        entry.readers.push(sender);
        Attachment { output, input }
    }

    /// Ends the input of a container's program.
    pub(super) fn end_input(&self, id: &str) {
        if let Some(program) = self.0.lock().get_mut(id).and_then(|entry| entry.program.as_mut()) {
            program.input = None;
        }
    }

    /// Tells those who are attached of output. One who takes nothing is left behind.
    pub(super) async fn notify(&self, id: &str, source: Source, bytes: &Bytes) {
        let readers = {
            let mut all = self.0.lock();
            let Some(entry) = all.get_mut(id) else { return };
            if let Some(program) = &mut entry.program {
                program.remember(bytes);
            }
            entry.readers.retain(|reader| !reader.is_closed());
            entry.readers.clone()
        };
        for reader in readers {
            let sent = timeout(STALL, reader.send((source, bytes.clone()))).await;
            if sent.is_err() {
                let mut all = self.0.lock();
                if let Some(entry) = all.get_mut(id) {
                    entry.readers.retain(|other| !other.same_channel(&reader));
                }
            }
        }
    }

    fn remove(&self, id: &str) {
        self.0.lock().remove(id);
    }
}

impl Entry {
    fn is_needed(&self) -> bool {
        self.program.is_some() || self.readers.iter().any(|reader| !reader.is_closed())
    }
}

impl Program {
    fn remember(&mut self, bytes: &[u8]) {
        if let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') {
            self.line.clear();
            self.line.extend_from_slice(&bytes[end + 1..]);
        } else {
            self.line.extend_from_slice(bytes);
        }
        let excess = self.line.len().saturating_sub(MAX_LINE);
        self.line.drain(..excess);
    }
}

/// Begins anew the commands of the containers of a runtime that goes on with what was recorded: what they had done is forgotten.
pub(super) fn go_on(core: &Arc<Core>) {
    for id in core.read(State::running_ids) {
        start_program(core, &id);
    }
}

/// Runs the command of a container that is not planned, unless it runs already. The container ends with it.
pub(super) fn start_program(core: &Arc<Core>, id: &str) {
    let Ok(running) = core.read(|state| state.running(id)) else { return };
    let Some(live) = running.behaviour.live else { return };
    let (input, typed) = mpsc::channel(1);
    let has_input = running.config.stdin || running.config.tty;
    {
        let mut all = core.attached.0.lock();
        let entry = all.entry(id.to_owned()).or_default();
        if entry.program.is_some() {
            return;
        }
        let input = has_input.then_some(input);
        entry.program = Some(Program { input, line: Vec::new() });
    }
    let words = command::words(&running.config);
    let (tty, log) = (running.config.tty, running.log_path.clone());
    let inside = Inside { own: Some(live), ..exec::inside(core, id, running) };
    let (stdout, out) = mpsc::channel(1);
    let (stderr, err) = mpsc::channel(1);
    let channels = Channels { stdin: Some(typed), stdout, stderr };
    let (core, id) = (Arc::downgrade(core), id.to_owned());
    tokio::spawn(async move {
        let program = command::execute(&words, inside, channels, tty);
        let outputs = (
            record(&core, &id, Source::Stdout, out, log.clone()),
            record(&core, &id, Source::Stderr, err, log),
        );
        let all = async { tokio::join!(program, outputs.0, outputs.1).0 };
        tokio::select! {
            outcome = all => if let Some(core) = core.upgrade() {
                let code = outcome.unwrap_or(127);
                core.change(|state, now| state.crash(&id, code, now));
            },
            () = exec::ended(core.clone(), &id) => {}
        }
        if let Some(core) = core.upgrade() {
            core.attached.remove(&id);
        }
    });
}

/// Writes an output into the log, and tells those who are attached.
async fn record(
    core: &Weak<Core>,
    id: &str,
    source: Source,
    mut output: mpsc::Receiver<Bytes>,
    log: Option<PathBuf>,
) {
    let mut line = Vec::new();
    while let Some(bytes) = output.recv().await {
        let Some(core) = core.upgrade() else { return };
        core.attached.notify(id, source, &bytes).await;
        line.extend_from_slice(&bytes);
        line = write_lines(log.clone(), source, line, false).await;
    }
    write_lines(log, source, line, true).await;
}

/// Writes the whole lines; with `all`, the rest too. What is left of the last one comes back.
async fn write_lines(log: Option<PathBuf>, source: Source, text: Vec<u8>, all: bool) -> Vec<u8> {
    let written = tokio::task::spawn_blocking(move || {
        let Some(log) = log else { return Vec::new() };
        let stream = if source == Source::Stdout { "stdout" } else { "stderr" };
        let mut rest = text.as_slice();
        loop {
            let end = rest.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let end = match end {
                Some(end) => end.min(MAX_LINE),
                None if rest.len() >= MAX_LINE => MAX_LINE,
                None if all && !rest.is_empty() => rest.len(),
                None => return rest.to_vec(),
            };
            let (line, more) = rest.split_at(end);
            let line = line
                .strip_suffix(b"\r\n")
                .map(|line| [line, b"\n"].concat())
                .unwrap_or_else(|| line.to_vec());
            if let Err(error) = files::log_line(&log, stream, &line, jiff::Timestamp::now()) {
                tracing::warn!(path = %log.display(), %error, "cannot write a simulated container's log");
            }
            rest = more;
        }
    });
    written.await.unwrap_or_default()
}
