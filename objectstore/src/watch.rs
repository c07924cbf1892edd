//! Watching: each watcher reads a shared, bounded log at its own pace; one that falls off its end is told to list again.

use std::{pin::pin, sync::Arc};

use tokio::sync::Notify;

use super::{
    Event, Scope, StoreError,
    log::{Log, NextEvent},
};

/// A place in the log of changes.
#[derive(Debug)]
pub struct Watch {
    log: Arc<Log>,
    wake: Arc<Notify>,
    scope: Scope,
    /// Every change of the scope up to here was returned.
    seen: u64,
}

impl Watch {
    /// A watch of `scope` after revision `after`.
    pub(super) fn open(log: Arc<Log>, scope: Scope, after: u64) -> Result<Self, StoreError> {
        let wake = log.subscribe(&scope.resource, after)?;
        Ok(Self {
            log,
            wake,
            scope,
            seen: after,
        })
    }

    /// The next change; waits for one. [`StoreError::Expired`] when this watcher was too slow and changes were dropped.
    /// Cancel-safe: a change not returned is returned by the next call.
    pub async fn next(&mut self) -> Result<Event, StoreError> {
        loop {
            // Registered before reading: a change published in between wakes it.
            let mut woken = pin!(self.wake.notified());
            woken.as_mut().enable();
            match self.log.read(&self.scope, self.seen)? {
                NextEvent::Event(event) => {
                    self.seen = event.object.revision;
                    return Ok(Event::clone(&event));
                }
                NextEvent::NothingUpTo(revision) => self.seen = revision,
            }
            woken.await;
        }
    }

    /// Returns the changes up to the revision `end`, that of a listing.
    ///
    /// # Errors
    /// [`StoreError::Expired`] where they are no longer kept.
    pub fn up_to(mut self, end: u64) -> Result<Vec<Event>, StoreError> {
        let mut events = Vec::new();
        loop {
            match self.log.read(&self.scope, self.seen)? {
                NextEvent::Event(event) if event.object.revision <= end => {
                    self.seen = event.object.revision;
                    events.push(Event::clone(&event));
                }
                NextEvent::NothingUpTo(revision) if revision < end => {
                    return Err(StoreError::Expired {
                        asked: self.seen,
                        oldest: end,
                    });
                }
                NextEvent::Event(_) | NextEvent::NothingUpTo(_) => return Ok(events),
            }
        }
    }

    /// Everything up to this revision was returned (what a bookmark says). It moves on while only other resources change,
    /// so that a quiet watch stays resumable.
    pub fn position(&self) -> u64 {
        match self.log.read(&self.scope, self.seen) {
            Ok(NextEvent::NothingUpTo(revision)) => revision,
            Ok(NextEvent::Event(_)) | Err(_) => self.seen,
        }
    }
}
