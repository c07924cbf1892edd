//! Collects what a command would do while it is being planned.

use std::time::Duration;

use super::run::Run;

/// The most lines of a plan; further lines are left out.
const MAX_LINES: usize = 1000;
/// The most bytes of all its lines.
const MAX_BYTES: usize = 256 * 1024;

/// A run without real time: what would have been printed, and when.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Whether unknown commands are assumed to succeed.
    pub(super) guesses: bool,
    pub(super) now: Duration,
    line: Vec<u8>,
    bytes: usize,
    run: Run,
}

impl Plan {
    pub(super) fn new(guesses: bool) -> Self {
        Self {
            guesses,
            ..Self::default()
        }
    }

    pub(super) fn print(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = piece
                .strip_suffix(b"\n")
                .map_or((piece, false), |text| (text, true));
            if self.bytes + text.len() <= MAX_BYTES {
                self.bytes += text.len();
                self.line.extend_from_slice(text);
            }
            if ends {
                self.push_line();
            }
        }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.end_line();
        self.now = self.now.saturating_add(time);
    }

    /// Returns the planned run.
    pub(super) fn finish(mut self) -> Run {
        self.end_line();
        self.run
    }

    fn end_line(&mut self) {
        if !self.line.is_empty() {
            self.push_line();
        }
    }

    fn push_line(&mut self) {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        if self.run.lines.len() < MAX_LINES {
            self.run.lines.push((self.now, line));
        }
    }
}
