//! The history of values: changes of the last day, limited in number, each property at most once a second.
//!
//! It is written in chunks, some seconds after the changes: a crash may lose those seconds of history, but never a value. Pure.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use wire::topic::DeviceId;

/// How long entries are kept, milliseconds.
pub(super) const RETENTION_MILLIS: i64 = 24 * 3600 * 1000;
/// The most chunks that are kept.
const MAX_CHUNKS: usize = 256;
/// The most entries of a chunk.
const CHUNK_ENTRIES: usize = 512;
/// The most entries that wait while the disk fails; older ones are dropped.
const MAX_UNWRITTEN_ENTRIES: usize = 8 * CHUNK_ENTRIES;
/// The shortest time between two entries of one property, milliseconds.
pub(super) const MIN_INTERVAL_MILLIS: i64 = 1000;

/// A value that a property had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// The device.
    pub device: DeviceId,
    /// The property.
    pub property: String,
    /// The value; `None` if the property was deleted.
    pub value: Option<String>,
    /// When it was set, milliseconds since the Unix epoch.
    pub at: i64,
}

/// A number of entries that are written together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Chunk {
    pub(super) entries: Vec<HistoryEntry>,
}

/// The entries that wait to be written, and the chunks that are.
#[derive(Debug, Default)]
pub(super) struct History {
    waiting: VecDeque<HistoryEntry>,
    /// The number and newest time of each chunk.
    written: VecDeque<(u64, i64)>,
    next: u64,
}

impl History {
    /// Creates the history with the chunks on disk: their numbers and newest times, in order.
    pub(super) fn new(written: impl IntoIterator<Item = (u64, i64)>) -> Self {
        let written: VecDeque<_> = written.into_iter().collect();
        let next = written.back().map_or(0, |(number, _)| number + 1);
        Self {
            waiting: VecDeque::new(),
            written,
            next,
        }
    }

    /// Adds entries.
    pub(super) fn add(&mut self, past: impl IntoIterator<Item = HistoryEntry>) {
        self.waiting.extend(past);
        let too_many = self.waiting.len().saturating_sub(MAX_UNWRITTEN_ENTRIES);
        self.waiting.drain(..too_many);
    }

    /// Reports whether there are enough entries for a full chunk.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= CHUNK_ENTRIES
    }

    /// Returns the next chunk to write with its number, and the chunks to remove; `None` if nothing waits.
    pub(super) fn chunk(&self, now: i64) -> Option<(u64, Chunk, Vec<u64>)> {
        let entries: Vec<HistoryEntry> = self.waiting.iter().take(CHUNK_ENTRIES).cloned().collect();
        let too_many = (self.written.len() + 1).saturating_sub(MAX_CHUNKS);
        let is_over = |(place, (_, newest)): &(usize, &(u64, i64))| {
            *place < too_many || *newest < now - RETENTION_MILLIS
        };
        let over = self
            .written
            .iter()
            .enumerate()
            .filter(is_over)
            .map(|(_, (number, _))| *number)
            .collect();
        (!entries.is_empty()).then_some((self.next, Chunk { entries }, over))
    }

    /// Records that the chunk of [`chunk`](Self::chunk) was written, and the others were removed.
    pub(super) fn record_written(&mut self, chunk: &Chunk, over: &[u64]) {
        self.waiting
            .drain(..chunk.entries.len().min(self.waiting.len()));
        self.written.retain(|(number, _)| !over.contains(number));
        let newest = chunk
            .entries
            .iter()
            .map(|past| past.at)
            .max()
            .unwrap_or_default();
        self.written.push_back((self.next, newest));
        self.next += 1;
    }

    /// Returns the waiting entries of a device.
    pub(super) fn waiting<'a>(
        &'a self,
        device: &'a DeviceId,
    ) -> impl Iterator<Item = &'a HistoryEntry> {
        self.waiting
            .iter()
            .filter(move |past| past.device == *device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(at: i64) -> HistoryEntry {
        HistoryEntry {
            device: DeviceId::parse("d").unwrap(),
            property: "t".into(),
            value: Some(at.to_string()),
            at,
        }
    }

    #[test]
    fn chunks_come_and_go() {
        let mut history = History::new([]);
        assert_eq!(history.chunk(0), None);
        for number in 0..2 * MAX_CHUNKS as i64 {
            history.add([past(number)]);
            let (next, chunk, over) = history.chunk(number).unwrap();
            assert_eq!((next, chunk.entries.len()), (number as u64, 1));
            history.record_written(&chunk, &over);
            assert!(history.written.len() <= MAX_CHUNKS);
        }
        history.add([past(RETENTION_MILLIS + 400)]);
        let (_, chunk, over) = history.chunk(RETENTION_MILLIS + 400).unwrap();
        // those of times before 400 are too old
        assert_eq!(over.last(), Some(&399));
        history.record_written(&chunk, &over);
        let again = History::new(history.written.iter().copied());
        assert_eq!(
            again.next, history.next,
            "a new start goes on with the numbers"
        );
    }

    #[test]
    fn a_disk_that_fails_costs_the_oldest() {
        let mut history = History::new([]);
        history.add((0..MAX_UNWRITTEN_ENTRIES as i64 + 7).map(past));
        assert!(history.is_full());
        let (_, chunk, _) = history.chunk(0).unwrap();
        assert_eq!(
            (chunk.entries.len(), chunk.entries[0].at),
            (CHUNK_ENTRIES, 7)
        );
        assert_eq!(
            history.waiting(&DeviceId::parse("d").unwrap()).count(),
            MAX_UNWRITTEN_ENTRIES
        );
        assert_eq!(
            history.waiting(&DeviceId::parse("other").unwrap()).count(),
            0
        );
    }
}
