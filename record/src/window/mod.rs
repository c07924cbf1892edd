//! The latest lines of a recorder in memory, for readers that follow them. A reader never slows the writer: one that is too slow finds a
//! gap. Messages are stored as they are, and secrets are replaced when a reader takes them: without a reader, that costs nothing.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::watch;
use wire::tunnel;

use crate::{
    Body, Connection, Frame, Gap, Header, Line, Side, redact::Redactor, redact_frame::redact_frame,
};

/// The most bytes of lines.
const MAX_BYTES: usize = 1536 * 1024;
/// The most lines.
const MAX_LINES: usize = 10_000;
/// A message that is larger is stored without its content.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;
/// The most bytes of lines that a reader takes at once, unless one line is larger.
const BATCH_BYTES: usize = 64 * 1024;

/// The latest lines; cheap to clone.
#[derive(Clone, Debug)]
pub struct Window(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    header: Header,
    stored: Mutex<Stored>,
    /// The number of lines so far.
    count: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Stored {
    /// Each line as JSON.
    lines: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    /// The number of the first line.
    first: u64,
    /// The time of the last line that was removed.
    removed: u64,
    /// The connections that are open, and were opened before the first line.
    open: BTreeMap<u64, Connection>,
    /// The connections whose begin is among the lines.
    recent: BTreeMap<u64, Connection>,
}

impl Window {
    /// Creates an empty window of a program, for example `cloudsim 1.2.3`.
    pub fn new(program: &str, side: Side) -> Self {
        Self(Arc::new(Shared {
            header: Header::new(program, side, true),
            stored: Mutex::default(),
            count: watch::Sender::new(0),
        }))
    }

    /// Adds a line.
    pub(crate) fn push(&self, line: &Line) {
        let large;
        let line = match line {
            // the data of streams is not shown, and would displace the messages
            Line::Frame(frame) if is_stream_data(frame) => return,
            Line::Frame(frame) if frame.size > MAX_MESSAGE_BYTES as u64 => {
                large = Line::Frame(Box::new(frame.without_content()));
                &large
            }
            line => line,
        };
        let Ok(mut text) = line.encode(MAX_BYTES) else {
            return;
        };
        // its buffer has grown to twice the text at most
        text.shrink_to_fit();
        let mut stored = self.0.stored.lock();
        stored.bytes += text.len();
        stored.lines.push_back((line.time().unwrap_or(0), text));
        match line {
            Line::Connection(connection) => {
                stored.recent.insert(connection.id, connection.clone());
            }
            Line::End(end) => {
                stored.recent.remove(&end.connection);
                stored.open.remove(&end.connection);
            }
            _ => {}
        }
        while stored.bytes > MAX_BYTES || stored.lines.len() > MAX_LINES {
            stored.remove_first();
        }
        drop(stored);
        self.0.count.send_modify(|count| *count += 1);
    }

    /// Returns a reader, which begins with the header and the lines so far.
    pub fn reader(&self) -> WindowReader {
        WindowReader {
            lines: self.0.count.subscribe(),
            window: self.clone(),
            next: None,
            redactor: Redactor::default(),
        }
    }
}

impl Stored {
    fn remove_first(&mut self) {
        let Some((time, text)) = self.lines.pop_front() else {
            return;
        };
        self.bytes -= text.len();
        self.first += 1;
        self.removed = time;
        while let Some(entry) = self.recent.first_entry() {
            if entry.get().time > time {
                break;
            }
            let (id, connection) = entry.remove_entry();
            self.open.insert(id, connection);
        }
    }
}

/// Follows a window.
#[derive(Debug)]
pub struct WindowReader {
    window: Window,
    lines: watch::Receiver<u64>,
    /// The number of the next line; `None` before the first one.
    next: Option<u64>,
    redactor: Redactor,
}

impl WindowReader {
    /// Waits for lines and returns them: JSON without secrets, one object per line. If lines were removed before this reader took them,
    /// the first one is their gap. `None` when there will be no more.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            self.lines.borrow_and_update();
            let mut taken = Vec::new();
            self.take(&mut taken);
            if !taken.is_empty() {
                return Some(taken);
            }
            self.lines.changed().await.ok()?;
        }
    }

    fn take(&mut self, into: &mut Vec<u8>) {
        let (raw, before) = {
            let stored = self.window.0.stored.lock();
            let next = self.next.unwrap_or(stored.first);
            let mut before = Vec::new();
            if self.next.is_none() {
                before.push(Line::Recording(self.window.0.header.clone()));
                before.extend(stored.open.values().cloned().map(Line::Connection));
            } else if next < stored.first {
                before.push(Line::Gap(Gap {
                    time: stored.removed,
                    frames: stored.first - next,
                }));
                before.extend(stored.open.values().cloned().map(Line::Connection));
            }
            let next = next.max(stored.first);
            let skipped = usize::try_from(next - stored.first).unwrap_or(usize::MAX);
            let mut bytes = 0;
            let waiting = stored.lines.iter().skip(skipped);
            let raw: Vec<Vec<u8>> = waiting
                .take_while(|(_, text)| {
                    let fits = bytes == 0 || bytes + text.len() <= BATCH_BYTES;
                    bytes += text.len();
                    fits
                })
                .map(|(_, text)| text.clone())
                .collect();
            self.next = Some(next + raw.len() as u64);
            (raw, before)
        };
        for line in before {
            append(into, &line);
        }
        for text in raw {
            let Ok(mut line) = serde_json::from_slice::<Line>(&text) else {
                continue;
            };
            if let Line::Frame(frame) = &mut line {
                redact_frame(&self.redactor, frame);
            }
            append(into, &line);
        }
    }
}

fn append(into: &mut Vec<u8>, line: &Line) {
    if serde_json::to_writer(&mut *into, line).is_ok() {
        into.push(b'\n');
    }
}

fn is_stream_data(frame: &Frame) -> bool {
    let data = tunnel::Kind::Data.number();
    matches!(&frame.body, Body::Tunnel { kind, .. } if *kind == data)
}

#[cfg(test)]
mod tests;
