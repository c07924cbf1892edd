//! The log of changes: for each resource the newest events, bounded by count and by bytes. Watchers read it at their own pace,
//! so a slow one costs nothing but its own relist.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Event, Resource, Scope, StoreError};

/// How much of the past is kept for watchers, for each resource. The newest event is kept whatever its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// At most so many events.
    pub events: usize,
    /// At most so many bytes of objects. An event also holds the object's earlier state, which is nearly always the state that
    /// an earlier event shares with it, so the memory used is at most twice this.
    pub bytes: usize,
}

impl LogLimits {
    /// For an edge node. Its watchers live in the same process and lag by milliseconds, so a thousand changes are ample; the
    /// bytes keep all busy resources together (pods, records, nodes) within two of the agent's 20 MB.
    pub const EDGE: Self = Self { events: 1_000, bytes: 384 << 10 };
    /// For a cloud. A client that was away for some minutes should resume instead of listing thousands of pods again.
    pub const CLOUD: Self = Self { events: 10_000, bytes: 16 << 20 };
}

/// The shared log. Its own lock is held for single steps only.
pub(super) struct Log {
    limits: LogLimits,
    state: Mutex<State>,
}

struct State {
    /// The newest published revision.
    head: u64,
    /// The newest revision that a reader may have seen already: at most the commit under way ahead of `head`.
    ceiling: u64,
    /// Nothing up to here was ever in the log.
    floor: u64,
    lanes: HashMap<Resource, Lane>,
}

/// One resource's part.
#[derive(Default)]
struct Lane {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// The newest revision dropped.
    dropped: u64,
    wake: Arc<Notify>,
}

/// What a watcher finds next.
pub(super) enum Found {
    /// The next change of its scope.
    Event(Arc<Event>),
    /// No change of its scope up to this revision.
    NothingUpTo(u64),
}

impl Log {
    /// An empty log that goes on after `revision`.
    pub(super) fn new(revision: u64, limits: LogLimits) -> Self {
        let state = State { head: revision, ceiling: revision, floor: revision, lanes: HashMap::new() };
        Self { limits, state: Mutex::new(state) }
    }

    /// How much of the past is kept.
    pub(super) fn limits(&self) -> LogLimits {
        self.limits
    }

    /// The newest published revision.
    pub(super) fn head(&self) -> u64 {
        self.state.lock().head
    }

    /// Says that readers may see up to `revision` before [`Log::append`] is called for it, so that a watch from there is
    /// not taken for one from the future.
    pub(super) fn announce(&self, revision: u64) {
        self.state.lock().ceiling = revision;
    }

    /// Publishes the events of a commit, which stand in the order of revisions after the head.
    pub(super) fn append(&self, events: Vec<Event>) {
        let mut state = self.state.lock();
        let mut touched = HashMap::new();
        for event in events {
            state.head = event.object.revision;
            let resource = event.object.key.resource.clone();
            let lane = state.lanes.entry(resource.clone()).or_default();
            lane.push(event, self.limits);
            touched.entry(resource).or_insert_with(|| lane.wake.clone());
        }
        state.ceiling = state.ceiling.max(state.head);
        drop(state);
        touched.values().for_each(|wake| wake.notify_waiters());
    }

    /// Forgets everything and goes on after `revision`: the changes in between are not known. Every watcher must list again.
    pub(super) fn reset(&self, revision: u64) {
        let mut state = self.state.lock();
        (state.head, state.ceiling, state.floor) = (revision, revision, revision);
        for lane in state.lanes.values_mut() {
            lane.events.clear();
            lane.bytes = 0;
            lane.wake.notify_waiters();
        }
    }

    /// Checks that a watch of `resource` can start after `after`; answers what wakes it.
    pub(super) fn subscribe(&self, resource: &Resource, after: u64) -> Result<Arc<Notify>, StoreError> {
        let mut state = self.state.lock();
        let (floor, ceiling) = (state.floor, state.ceiling);
        let lane = state.lanes.entry(resource.clone()).or_default();
        let oldest = floor.max(lane.dropped);
        if after < oldest || after > ceiling {
            return Err(StoreError::Expired { asked: after, oldest });
        }
        Ok(lane.wake.clone())
    }

    /// The first change of `scope` after `after`.
    pub(super) fn read(&self, scope: &Scope, after: u64) -> Result<Found, StoreError> {
        let state = self.state.lock();
        let nothing = Found::NothingUpTo(after.max(state.head));
        let lane = state.lanes.get(&scope.resource);
        let oldest = lane.map_or(state.floor, |lane| lane.dropped.max(state.floor));
        if after < oldest {
            return Err(StoreError::Expired { asked: after, oldest });
        }
        let Some(lane) = lane else { return Ok(nothing) };
        let start = lane.events.partition_point(|event| event.object.revision <= after);
        let covered = |event: &&Arc<Event>| match &scope.namespace {
            Some(namespace) => *namespace == event.object.key.namespace,
            None => true,
        };
        Ok(lane.events.range(start..).find(covered).map_or(nothing, |event| Found::Event(event.clone())))
    }
}

impl Lane {
    fn push(&mut self, event: Event, limits: LogLimits) {
        self.bytes += event.object.json.len();
        self.events.push_back(Arc::new(event));
        while self.events.len() > 1 && (self.events.len() > limits.events || self.bytes > limits.bytes) {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.object.json.len();
            self.dropped = oldest.object.revision;
        }
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
