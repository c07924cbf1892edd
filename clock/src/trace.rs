//! The trace of a simulation: what happened, in order, each line with its virtual time. Two runs of one seed have the same trace.

use std::collections::VecDeque;

/// How many of the newest lines are kept unless all are.
const KEPT_LINES: usize = 2_000;
/// The parameters of FNV-1a with 64 bits.
const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// What happened in a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The number of lines.
    pub lines: u64,
    /// The FNV-1a hash of all lines.
    pub digest: u64,
    /// The newest lines, or all of them.
    pub kept: VecDeque<String>,
    keeps_all: bool,
}

impl Trace {
    pub(crate) fn new(keeps_all: bool) -> Self {
        Self {
            lines: 0,
            digest: OFFSET_BASIS,
            kept: VecDeque::new(),
            keeps_all,
        }
    }

    pub(crate) fn push(&mut self, line: String) {
        self.lines += 1;
        for byte in line.bytes().chain([b'\n']) {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        if !self.keeps_all && self.kept.len() == KEPT_LINES {
            self.kept.pop_front();
        }
        self.kept.push_back(line);
    }
}
