//! Counts the outcomes of requests about devices.

use std::sync::atomic::{AtomicU64, Ordering};

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// It was executed.
    Done,
    /// It was refused: invalid JSON, an invalid value.
    Bad,
    /// It was about an unknown device.
    Unknown,
    /// It was too large.
    TooLarge,
    /// A report was confirmed by the cloud.
    Reported,
}

impl RequestOutcome {
    /// All outcomes, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Done,
        Self::Bad,
        Self::Unknown,
        Self::TooLarge,
        Self::Reported,
    ];

    /// Returns the outcome's name in metrics.
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

/// The counters since the start.
#[derive(Debug, Default)]
pub struct RequestCounts([AtomicU64; RequestOutcome::ALL.len()]);

impl RequestCounts {
    /// Returns how many requests had this outcome.
    pub fn get(&self, count: RequestOutcome) -> u64 {
        self.0[count as usize].load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, count: RequestOutcome) {
        self.0[count as usize].fetch_add(1, Ordering::Relaxed);
    }
}
