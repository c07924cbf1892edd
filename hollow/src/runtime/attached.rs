//! Keeps the clients that are attached to containers, and the programs of containers that wait for typed input.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{sync::mpsc, time::timeout};

/// How many pieces of output may wait for one attached client.
const QUEUE_LENGTH: usize = 16;
/// How long an attached client may read nothing; until then the container waits, as it does in containerd.
const STALL: Duration = Duration::from_secs(5);
/// How many bytes of an unfinished line are remembered.
const MAX_LINE: usize = 16 * 1024;

/// An output of a container: standard output or standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Stdout,
    Stderr,
}

/// A piece of output and where it comes from.
pub(super) type Piece = (Source, Bytes);

/// The containers to which clients are attached, or that run a program.
#[derive(Default)]
pub(super) struct Attached(Mutex<BTreeMap<String, Entry>>);

#[derive(Default)]
struct Entry {
    readers: Vec<mpsc::Sender<Piece>>,
    program: Option<Program>,
}

/// A program that runs in a container.
struct Program {
    /// The program's input; `None` when the input has ended.
    input: Option<mpsc::Sender<Bytes>>,
    /// What the program has printed of its unfinished line, such as a prompt.
    line: Vec<u8>,
}

/// One client's connection to a container's input and output.
pub(super) struct Attachment {
    pub(super) output: mpsc::Receiver<Piece>,
    /// What the client types, which the container reads.
    pub(super) input: Option<mpsc::Sender<Bytes>>,
}

impl Attached {
    /// Attaches to a container; its output from now on is received, beginning with the unfinished line.
    pub(super) fn attach(&self, id: &str) -> Attachment {
        let (sender, output) = mpsc::channel(QUEUE_LENGTH);
        let mut all = self.0.lock();
        all.retain(|_, entry| entry.is_needed());
        let entry = all.entry(id.to_owned()).or_default();
        entry.readers.retain(|reader| !reader.is_closed());
        let input = entry
            .program
            .as_ref()
            .and_then(|program| program.input.clone());
        if let Some(program) = entry
            .program
            .as_ref()
            .filter(|program| !program.line.is_empty())
        {
            // The queue was just created, so there is room.
            let _ = sender.try_send((Source::Stdout, Bytes::copy_from_slice(&program.line)));
        }
        entry.readers.push(sender);
        Attachment { output, input }
    }

    /// Registers a container's program, which reads `input`; returns false if the container has one already.
    pub(super) fn add_program(&self, id: &str, input: Option<mpsc::Sender<Bytes>>) -> bool {
        let mut all = self.0.lock();
        let entry = all.entry(id.to_owned()).or_default();
        if entry.program.is_some() {
            return false;
        }
        entry.program = Some(Program {
            input,
            line: Vec::new(),
        });
        true
    }

    /// Ends the input of a container's program.
    pub(super) fn end_input(&self, id: &str) {
        if let Some(program) = self
            .0
            .lock()
            .get_mut(id)
            .and_then(|entry| entry.program.as_mut())
        {
            program.input = None;
        }
    }

    /// Sends output to all attached clients. A client that reads nothing for too long is detached.
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

    /// Removes a container that has ended.
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
