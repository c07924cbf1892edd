//! Records what happened line by line: the newest lines to read, and a digest of all lines to compare runs.

use std::{collections::VecDeque, fmt};

use tokio::time::Instant;

/// How many lines are kept.
const KEPT: usize = 150;

/// The record of a run. Lines never contain values that differ in each run, such as UIDs.
#[derive(Debug)]
pub struct Trace {
    begun: Instant,
    lines: VecDeque<String>,
    kept: usize,
    count: u64,
    digest: u64,
}

impl Trace {
    /// Creates an empty trace that begins now.
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            lines: VecDeque::new(),
            kept: KEPT,
            count: 0,
            digest: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// Keeps every line from now on.
    pub fn keep_all(&mut self) {
        self.kept = usize::MAX;
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, text: fmt::Arguments<'_>) {
        let line = format!("{:>9.3} {text}", self.begun.elapsed().as_secs_f64());
        for byte in line.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self.count += 1;
        if self.lines.len() >= self.kept {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// Returns the number of lines and their digest.
    pub fn digest(&self) -> (u64, u64) {
        (self.count, self.digest)
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
