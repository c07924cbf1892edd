//! How requests about devices ended.

use std::sync::atomic::{AtomicU64, Ordering};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// It was carried out.
    Done,
    /// It was refused: bad JSON, a wrong value.
    Bad,
    /// It was about a device that is not here.
    Unknown,
    /// It was too large.
    TooLarge,
    /// A report was confirmed by the cloud.
    Reported,
}

impl Count {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Done, Self::Bad, Self::Unknown, Self::TooLarge, Self::Reported];

    /// Its name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Bad => "bad_request",
            Self::Unknown => "not_found",
            Self::TooLarge => "too_large",
            Self::Reported => "reported",
        }
    }
}

/// Numbers since the start.
#[derive(Debug, Default)]
pub struct Counts([AtomicU64; Count::ALL.len()]);

impl Counts {
    /// How many of these there have been.
    pub fn get(&self, count: Count) -> u64 {
        self.0[count as usize].load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, count: Count) {
        self.0[count as usize].fetch_add(1, Ordering::Relaxed);
    }
}
