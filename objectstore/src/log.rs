//! The log of changes: for each resource the newest events, bounded by count and by bytes. Watchers read it at their own pace,
//! so a slow one costs nothing but its own relist.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::{Event, Resource, Scope, StoreError};

/// How long a reader that saw a commit waits until watchers can see it as well.
const PUBLICATION_TIMEOUT: Duration = Duration::from_secs(2);

/// How many times the limits apply to events that are fresh.
const FRESH_FACTOR: usize = 10;

/// How many events are kept for watchers, for each resource. The newest event is kept whatever its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// The most events.
    pub events: usize,
    /// The most bytes of objects. An event also holds the object's earlier state, which is nearly always shared with an earlier event,
    /// so the memory used is at most twice this.
    pub bytes: usize,
    /// Events that are younger are kept up to ten times these limits: what a client needs while it lists and watches a resource that
    /// changes thousands of times a second.
    pub fresh: Duration,
}

impl LogLimits {
    /// For an edge node. Its watchers are in the same process and lag by milliseconds, so a thousand changes are ample; the bytes keep
    /// all busy resources together (pods, records, nodes) within two of the agent's 20 MB.
    pub const EDGE: Self = Self::new(1_000, 384 << 10);
    /// For a cloud. A client that was away for some minutes should resume instead of listing thousands of pods again.
    pub const CLOUD: Self = Self {
        fresh: Duration::from_secs(75),
        ..Self::new(10_000, 16 << 20)
    };

    /// Returns limits that apply however young the events are.
    pub const fn new(events: usize, bytes: usize) -> Self {
        Self {
            events,
            bytes,
            fresh: Duration::ZERO,
        }
    }
}

/// The shared log. Its lock is never held across an await.
pub(super) struct Log {
    limits: LogLimits,
    state: Mutex<State>,
    /// Woken by each commit.
    published: Notify,
}

struct State {
    /// The newest published revision.
    head: u64,
    /// The revision at which the log begins.
    floor: u64,
    resources: HashMap<Resource, ResourceEvents>,
}

/// The events of one resource.
#[derive(Default)]
struct ResourceEvents {
    events: VecDeque<Kept>,
    bytes: usize,
    /// The newest revision dropped.
    dropped: u64,
    wake: Arc<Notify>,
}

/// An event, and when it was published.
struct Kept {
    event: Arc<Event>,
    at: Instant,
}

/// The next item of a watch.
pub(super) enum NextEvent {
    /// The next change in its scope.
    Event(Arc<Event>),
    /// There is no change in its scope up to this revision.
    NothingUpTo(u64),
}

impl Log {
    /// Makes an empty log that continues after `revision`.
    pub(super) fn new(revision: u64, limits: LogLimits) -> Self {
        let state = State {
            head: revision,
            floor: revision,
            resources: HashMap::new(),
        };
        Self {
            limits,
            state: Mutex::new(state),
            published: Notify::new(),
        }
    }

    /// Returns the limits of the log.
    pub(super) fn limits(&self) -> LogLimits {
        self.limits
    }

    /// Returns the newest published revision.
    pub(super) fn head(&self) -> u64 {
        self.state.lock().head
    }

    /// Waits until the commit of `revision` is published, which a reader of the file can see a moment earlier. Returns after some time in
    /// any case: another process may have written to the file.
    pub(super) async fn wait_published(&self, revision: u64) {
        let published = async {
            loop {
                // registered before looking: a commit published in between wakes it
                let mut woken = pin!(self.published.notified());
                woken.as_mut().enable();
                if self.head() >= revision {
                    return;
                }
                woken.await;
            }
        };
        let _ = timeout(PUBLICATION_TIMEOUT, published).await;
    }

    /// Publishes the events of a commit, in the order of their revisions, all after the head.
    pub(super) fn append(&self, events: Vec<Event>) {
        let mut state = self.state.lock();
        let (mut touched, now) = (HashMap::new(), Instant::now());
        for event in events {
            state.head = event.object.revision;
            let resource = event.object.key.resource.clone();
            let resource_events = state.resources.entry(resource.clone()).or_default();
            resource_events.push(event, now, self.limits);
            touched
                .entry(resource)
                .or_insert_with(|| resource_events.wake.clone());
        }
        drop(state);
        self.published.notify_waiters();
        touched.values().for_each(|wake| wake.notify_waiters());
    }

    /// Drops all events and continues after `revision`, since the changes in between are not known. Every watcher must list again.
    pub(super) fn reset(&self, revision: u64) {
        let mut state = self.state.lock();
        (state.head, state.floor) = (revision, revision);
        for resource_events in state.resources.values_mut() {
            resource_events.events.clear();
            resource_events.bytes = 0;
            resource_events.wake.notify_waiters();
        }
    }

    /// Checks that a watch of `resource` can start after the revision `after`; returns the `Notify` that wakes it.
    pub(super) fn subscribe(
        &self,
        resource: &Resource,
        after: u64,
    ) -> Result<Arc<Notify>, StoreError> {
        let mut state = self.state.lock();
        let (floor, head) = (state.floor, state.head);
        let resource_events = state.resources.entry(resource.clone()).or_default();
        let oldest = floor.max(resource_events.dropped);
        if after < oldest || after > head {
            return Err(StoreError::Expired {
                asked: after,
                oldest,
            });
        }
        Ok(resource_events.wake.clone())
    }

    /// Returns the first change in `scope` after the revision `after`.
    pub(super) fn read(&self, scope: &Scope, after: u64) -> Result<NextEvent, StoreError> {
        let state = self.state.lock();
        let nothing = NextEvent::NothingUpTo(after.max(state.head));
        let resource_events = state.resources.get(&scope.resource);
        let oldest = resource_events.map_or(state.floor, |resource_events| {
            resource_events.dropped.max(state.floor)
        });
        if after < oldest {
            return Err(StoreError::Expired {
                asked: after,
                oldest,
            });
        }
        let Some(resource_events) = resource_events else {
            return Ok(nothing);
        };
        let start = resource_events
            .events
            .partition_point(|kept| kept.event.object.revision <= after);
        let covered = |kept: &&Kept| match &scope.namespace {
            Some(namespace) => *namespace == kept.event.object.key.namespace,
            None => true,
        };
        Ok(resource_events
            .events
            .range(start..)
            .find(covered)
            .map_or(nothing, |kept| NextEvent::Event(kept.event.clone())))
    }
}

impl ResourceEvents {
    fn push(&mut self, event: Event, now: Instant, limits: LogLimits) {
        self.bytes += event.object.json.len();
        let event = Arc::new(event);
        self.events.push_back(Kept { event, at: now });
        while self.exceeds(now, limits) {
            let Some(Kept { event, .. }) = self.events.pop_front() else {
                break;
            };
            self.bytes -= event.object.json.len();
            self.dropped = event.object.revision;
        }
    }

    /// Returns whether the oldest event is more than the limits allow.
    fn exceeds(&self, now: Instant, limits: LogLimits) -> bool {
        let factor = match self.events.front() {
            Some(oldest) if now - oldest.at < limits.fresh => FRESH_FACTOR,
            _ => 1,
        };
        let (events, bytes) = (self.events.len(), self.bytes);
        events > 1 && (events > factor * limits.events || bytes > factor * limits.bytes)
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("head", &self.head())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventKind, Key, Object};

    #[tokio::test(start_paused = true)]
    async fn fresh_events_are_kept_for_longer() {
        let resource = Resource::new("", "pods");
        let limits = LogLimits {
            fresh: Duration::from_secs(75),
            ..LogLimits::new(4, 1 << 20)
        };
        let log = Log::new(0, limits);
        let append = |revision: u64| {
            let object = Object {
                key: Key::new(resource.clone(), "default", "a"),
                revision,
                json: "{}".into(),
                labels: Default::default(),
            };
            log.append(vec![Event {
                kind: EventKind::Modified,
                object,
                previous: None,
            }]);
        };
        let oldest = || (0..).find(|after| log.subscribe(&resource, *after).is_ok());
        (1..=30).for_each(append);
        assert_eq!(oldest(), Some(0));
        (31..=50).for_each(append);
        assert_eq!(oldest(), Some(10), "ten times the limit");
        tokio::time::advance(Duration::from_secs(80)).await;
        append(51);
        assert_eq!(oldest(), Some(47), "the limit");
    }
}
