//! Who is attached to which container, and the programs of containers that wait for somebody to type.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{sync::mpsc, time::timeout};

/// Pieces of output that wait for one who is attached.
const QUEUE_LENGTH: usize = 16;
/// How long one who is attached may take nothing; until then the container waits, as it does in containerd.
const STALL: Duration = Duration::from_secs(5);
/// What is remembered of a line that is not ended, bytes.
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

    /// A container has a program from now on, which reads `input`; false where it has one already.
    pub(super) fn add_program(&self, id: &str, input: Option<mpsc::Sender<Bytes>>) -> bool {
        let mut all = self.0.lock();
        let entry = all.entry(id.to_owned()).or_default();
        if entry.program.is_some() {
            return false;
        }
        entry.program = Some(Program { input, line: Vec::new() });
        true
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

    /// The container has ended.
    pub(super) fn remove(&self, id: &str) {
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
