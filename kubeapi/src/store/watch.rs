//! Watching: each watcher reads a shared, bounded log at its own pace; one that falls off its end is told to list again.

use super::{Event, StoreError};

/// A place in the log of changes.
#[derive(Debug)]
pub struct Watch {}

impl Watch {
    /// The next change; waits for one. [`StoreError::Expired`] when this watcher was too slow and changes were dropped.
    /// Cancel-safe: a change not returned is returned by the next call.
    pub async fn next(&mut self) -> Result<Event, StoreError> {
        std::future::pending().await
    }

    /// Everything up to this revision was returned (what a bookmark says).
    pub fn position(&self) -> u64 {
        0
    }
}
