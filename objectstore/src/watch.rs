//! Watching: each watcher reads a shared, bounded log at its own pace; one that falls off its end is told to list again.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::{
    Event, Scope, StoreError,
    log::{Log, NextEvent},
};

/// How often a reader looks for a commit that other resources may be in.
const PUBLICATION_POLL: Duration = Duration::from_millis(1);

/// How long a commit that readers see may take until it is published.
const PUBLICATION_TIMEOUT: Duration = Duration::from_secs(10);

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

    /// Returns the changes up to the revision `end`, which readers have seen: its commit is published or about to be.
    ///
    /// # Errors
    /// [`StoreError::Expired`] where they are no longer kept, or where they are not published in time.
    pub async fn up_to(mut self, end: u64) -> Result<Vec<Event>, StoreError> {
        let deadline = Instant::now() + PUBLICATION_TIMEOUT;
        let mut events = Vec::new();
        loop {
            let wake = Arc::clone(&self.wake);
            let woken = wake.notified();
            match self.log.read(&self.scope, self.seen)? {
                NextEvent::Event(event) if event.object.revision <= end => {
                    self.seen = event.object.revision;
                    events.push(Event::clone(&event));
                    continue;
                }
                NextEvent::NothingUpTo(revision) if revision < end => {}
                NextEvent::Event(_) | NextEvent::NothingUpTo(_) => return Ok(events),
            }
            if Instant::now() >= deadline {
                return Err(StoreError::Expired {
                    asked: self.seen,
                    oldest: end,
                });
            }
            // a commit of other resources does not wake this one
            let _ = timeout(PUBLICATION_POLL, woken).await;
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
