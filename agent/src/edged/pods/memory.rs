//! What is remembered of a pod between two looks at it. Nothing here is needed to be right, only to be patient: after a
//! restart of the agent it is empty, and everything is tried at once.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use parking_lot::Mutex;

use super::{admission::Decision, hooks::PostStart};
use crate::edged::{
    moment,
    observed::{Item, Observed},
    status::Waiting,
};

/// What failed is tried again after this, doubled with each failure …
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// … up to this.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// All pods' memories, by uid.
#[derive(Default)]
pub(crate) struct Book(Mutex<HashMap<String, Memory>>);

/// One pod's.
#[derive(Default)]
pub(crate) struct Memory {
    /// When it was looked at first.
    pub(super) seen: Option<Instant>,
    /// What there was of it at the last look.
    items: BTreeSet<Item>,
    /// Looks in a row that failed.
    pub(super) failures: u32,
    /// Whether it was let in.
    pub(super) decision: Option<Decision>,
    /// Containers that cannot be started, and why.
    pub(super) blocked: BTreeMap<String, Blocked>,
    /// Why the pod as a whole is held up.
    pub(super) held_up: Option<Blocked>,
    /// How often something that the pod uses has changed: whoever reads such things compares before and after.
    pub(super) changes: u64,
    /// Until when the volumes are known to be up to date.
    pub(super) volumes_until: Option<Timestamp>,
    /// The status stored last, and the version of the pod that it was made from.
    pub(super) reported: Option<(String, PodStatus)>,
    /// When all containers of a pod that is being deleted must have ended.
    pub(super) end_by: Option<Timestamp>,
    /// PostStart hooks that run or have failed, by container id.
    pub(super) hooks: HashMap<String, PostStart>,
    /// The last container of each name whose back-off was told.
    pub(super) told_back_off: HashMap<String, String>,
    /// Why it has to end and fail, whatever its containers do, or may not even start.
    pub(super) condemned: Option<Condemned>,
    /// Its control group was limited.
    pub(super) limited: bool,
    /// Its volumes were removed, since it is over.
    pub(super) volumes_removed: bool,
    /// Its time is up, and that was told.
    pub(super) told_deadline: bool,
    /// It has been ended in order.
    pub(super) ended: bool,
    /// Containers being stopped, and when their time is up.
    pub(super) stops: HashMap<String, Timestamp>,
    /// Images being pulled, or that could not be.
    pub(super) pulls: HashMap<String, Pull>,
    /// Containers whose start failed and of which nothing runs.
    settled: BTreeSet<String>,
}

/// A pod that has to end although nobody deleted it, or that may not start.
#[derive(Clone, Debug)]
pub(crate) struct Condemned {
    /// Reason and message of its status.
    pub(crate) why: Waiting,
    /// How long its containers have at most; `None`: as long as they may have anyway.
    pub(crate) grace: Option<Duration>,
    /// What its status says of having been disrupted, if that it ends is not its own fault.
    pub(crate) disrupted: Option<String>,
}

/// Something that could not be done.
#[derive(Clone, Debug)]
pub(super) struct Blocked {
    /// Why.
    pub(super) waiting: Waiting,
    /// How often in a row.
    pub(super) failures: u32,
    /// When it is tried again.
    pub(super) retry_at: Timestamp,
}

/// The pull of an image.
#[derive(Clone, Debug)]
pub(super) enum Pull {
    /// On its way.
    Running,
    /// Here, and not used yet.
    Done,
    /// Failed.
    Failed {
        /// What the runtime said.
        message: String,
        /// How often in a row.
        failures: u32,
        /// When it is tried again.
        retry_at: Timestamp,
        /// Whether the failure itself was reported.
        told: bool,
    },
}

impl Book {
    /// Uses the memory of a pod, which is made when it is missing. The lock is held: `act` must be short.
    pub(super) fn with<T>(&self, uid: &str, act: impl FnOnce(&mut Memory) -> T) -> T {
        let mut book = self.0.lock();
        if let Some(memory) = book.get_mut(uid) {
            return act(memory);
        }
        act(book.entry(uid.to_owned()).or_default())
    }

    /// What there is of the pod, at this look.
    pub(crate) fn saw(&self, uid: &str, items: BTreeSet<Item>) {
        self.with(uid, |memory| memory.items = items);
    }

    /// Whether the last look found just that.
    pub(crate) fn has_seen(&self, uid: &str, items: &BTreeSet<Item>) -> bool {
        self.0.lock().get(uid).is_some_and(|memory| memory.items == *items)
    }

    /// The pod has to end. The first reason counts; whether this is it.
    pub(crate) fn condemn(&self, uid: &str, condemned: Condemned) -> bool {
        self.with(uid, |memory| {
            let first = memory.condemned.is_none();
            memory.condemned.get_or_insert(condemned);
            first
        })
    }

    /// Whether the pod has to end.
    pub(crate) fn is_condemned(&self, uid: &str) -> bool {
        self.0.lock().get(uid).is_some_and(|memory| memory.condemned.is_some())
    }

    /// Whether the pod has been ended in order, so that nothing of it is left.
    pub(super) fn has_ended(&self, uid: &str) -> bool {
        self.0.lock().get(uid).is_some_and(|memory| memory.ended)
    }

    /// The pod is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }

    /// Forgets all pods but these.
    pub(crate) fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.0.lock().retain(|uid, _| keep(uid));
    }
}

impl Memory {
    /// Containers that have ended without having begun, and were not here at the last look. A runtime may have lost sight of
    /// what it started for them.
    pub(super) fn unsettled(&mut self, observed: &Observed) -> Vec<String> {
        let failed = observed.containers.iter().filter(|container| container.never_ran());
        let failed: BTreeSet<String> = failed.map(|container| container.id.clone()).collect();
        let new = failed.difference(&self.settled).cloned().collect();
        self.settled = failed;
        new
    }

    /// Something that the pod uses has changed: what failed may work now, and files may be out of date.
    pub(super) fn reconsider(&mut self) {
        self.changes = self.changes.wrapping_add(1);
        self.volumes_until = None;
        for blocked in self.blocked.values_mut().chain(self.held_up.as_mut()) {
            blocked.retry_at = Timestamp::MIN;
        }
    }
}

impl Blocked {
    /// One more failure after `last`.
    pub(super) fn after(last: Option<&Self>, waiting: Waiting, now: Timestamp) -> Self {
        let failures = last.map_or(0, |last| last.failures).saturating_add(1);
        Self { waiting, failures, retry_at: moment::after(now, doubled(FIRST_WAIT, failures, MAX_WAIT)) }
    }
}

/// `first`, doubled for each failure after the first one, up to `max`.
pub(super) fn doubled(first: Duration, failures: u32, max: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(max)
}
