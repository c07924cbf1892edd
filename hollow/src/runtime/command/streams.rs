//! The inputs and outputs of commands.

use std::{collections::BTreeMap, sync::Arc};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::outcome::Stop;

/// The most bytes in a pipe between two commands: the second begins when the first has ended.
const MAX_PIPE: usize = 4 << 20;
/// The longest line that is read from an input.
const MAX_LINE: usize = 16 * 1024;

/// A command's input; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) enum Input {
    /// An input without any bytes.
    #[default]
    Empty,
    /// An input of just these bytes.
    Bytes(Arc<Mutex<Bytes>>),
    /// What a user types, or what another program prints.
    Live(Arc<tokio::sync::Mutex<Live>>),
    /// What somebody may type, while a container's command is only planned.
    Awaited,
}

/// Bytes as they come. An empty chunk is an end after which more may follow, such as Ctrl-D at a terminal.
#[derive(Debug)]
pub(super) struct Live {
    chunks: mpsc::Receiver<Bytes>,
    rest: Bytes,
}

impl Input {
    pub(super) fn live(chunks: mpsc::Receiver<Bytes>) -> Self {
        Self::Live(Arc::new(tokio::sync::Mutex::new(Live {
            chunks,
            rest: Bytes::new(),
        })))
    }

    pub(super) fn bytes(bytes: impl Into<Bytes>) -> Self {
        Self::Bytes(Arc::new(Mutex::new(bytes.into())))
    }

    /// Returns the next bytes; `None` at the end. Cancel-safe: what is not taken stays there.
    pub(super) async fn read(&self) -> Result<Option<Bytes>, Stop> {
        match self {
            Self::Empty => Ok(None),
            Self::Bytes(bytes) => {
                Ok(Some(std::mem::take(&mut *bytes.lock())).filter(|bytes| !bytes.is_empty()))
            }
            Self::Live(live) => {
                let mut live = live.lock().await;
                if !live.rest.is_empty() {
                    return Ok(Some(std::mem::take(&mut live.rest)));
                }
                Ok(live.chunks.recv().await.filter(|chunk| !chunk.is_empty()))
            }
            Self::Awaited => Err(Stop::Waits),
        }
    }

    /// Gives back what was read but not used.
    async fn unread(&self, bytes: Bytes) {
        match self {
            Self::Live(live) => live.lock().await.rest = bytes,
            Self::Bytes(rest) => *rest.lock() = bytes,
            Self::Empty | Self::Awaited => {}
        }
    }

    /// Returns the whole input; more than a pipe holds is an error.
    pub(super) async fn all(&self) -> Result<Bytes, Stop> {
        let mut all = BytesMut::new();
        while let Some(chunk) = self.read().await? {
            if all.len() + chunk.len() > MAX_PIPE {
                return Err(Stop::Broken(format!(
                    "more than {} MiB of input",
                    MAX_PIPE >> 20
                )));
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all.freeze())
    }

    /// Returns the next line with its newline, or the rest; `None` at the end. A line that is too long is cut into several.
    pub(super) async fn line(&self) -> Result<Option<Bytes>, Stop> {
        let mut line = BytesMut::new();
        while let Some(mut chunk) = self.read().await? {
            let room = MAX_LINE - line.len();
            let end = chunk
                .iter()
                .position(|byte| *byte == b'\n')
                .map_or(chunk.len(), |at| at + 1)
                .min(room);
            line.extend_from_slice(&chunk.split_to(end));
            self.unread(chunk).await;
            if line.ends_with(b"\n") || line.len() >= MAX_LINE {
                break;
            }
        }
        Ok(Some(line.freeze()).filter(|line| !line.is_empty()))
    }
}

/// The destination of a command's output.
#[derive(Clone, Debug)]
pub(super) enum Output {
    /// The output is thrown away.
    Nowhere,
    /// The planned log of a container.
    Plan,
    /// The receiver of this channel.
    Live(mpsc::Sender<Bytes>),
    /// The input of the next command.
    Pipe(Arc<Mutex<Vec<u8>>>),
    /// The end of this file.
    File(String),
}

impl Output {
    pub(super) fn pipe() -> (Self, Arc<Mutex<Vec<u8>>>) {
        let pipe: Arc<Mutex<Vec<u8>>> = Arc::default();
        (Self::Pipe(Arc::clone(&pipe)), pipe)
    }
}

/// Appends to a pipe; returns false if it is full.
pub(super) fn push(pipe: &Mutex<Vec<u8>>, bytes: &[u8]) -> bool {
    let mut pipe = pipe.lock();
    let has_room = pipe.len() + bytes.len() <= MAX_PIPE;
    if has_room {
        pipe.extend_from_slice(bytes);
    }
    has_room
}

/// The input and the outputs of a command.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    pub(super) input: Input,
    pub(super) output: Output,
    pub(super) error: Output,
}

/// The variables of a shell by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables {
    /// Shared with subshells until one of them changes it.
    all: Arc<BTreeMap<String, String>>,
    /// The bytes of all names and values.
    bytes: usize,
}

/// The most bytes of all names and values that a script sets.
const MAX_VARIABLES: usize = 256 * 1024;

impl Variables {
    pub(super) fn new(all: BTreeMap<String, String>) -> Self {
        Self {
            all: Arc::new(all),
            bytes: 0,
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&String> {
        self.all.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &String)> {
        self.all.iter()
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(value) = Arc::make_mut(&mut self.all).remove(name) {
            self.bytes = self.bytes.saturating_sub(name.len() + value.len());
        }
    }

    /// Sets a variable; returns false if the variables would take too much memory.
    pub(super) fn set(&mut self, name: &str, value: String) -> bool {
        self.remove(name);
        let bytes = self.bytes + name.len() + value.len();
        let has_room = bytes <= MAX_VARIABLES;
        if has_room {
            self.bytes = bytes;
            Arc::make_mut(&mut self.all).insert(name.to_owned(), value);
        }
        has_room
    }
}
