//! What is remembered of a pod between two syncs. Nothing here is needed to be right, only to be patient: after a
//! restart of the agent it is empty, and everything is tried at once.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::edged::{
    moment,
    observed::{Item, Observed},
    status::Waiting,
};

/// What failed is tried again after this, doubled with each failure …
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// … up to this.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(60);

/// So many pods that are gone are kept in mind while nobody lists what there is.
const MAX_GONE: usize = 4096;

/// All pods' states, by uid; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct PodCache(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    states: HashMap<String, PodState>,
    /// The pods that had something when the runtime was last asked for all of its lists, and those that went since. `None`: it
    /// has not been asked yet, or too many went.
    listed: Option<HashSet<String>>,
}

/// One pod's.
#[derive(Default)]
pub(crate) struct PodState {
    /// When it was synced first.
    pub(super) first_seen: Option<Instant>,
    /// It is being synced now.
    syncing: bool,
    /// What there was of it at the last sync, if there was one.
    items: Option<BTreeSet<Item>>,
    /// Syncs in a row that failed.
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
    /// What the pod said of itself when they were brought up to date: a hash of its labels and annotations.
    pub(super) volumes_of: Option<u64>,
    /// The status stored last, and the version of the pod that it was made from.
    pub(super) reported: Option<(String, PodStatus)>,
    /// When all containers of a pod that is being deleted must have ended.
    pub(super) end_by: Option<Timestamp>,
    /// PostStart hooks that run or have failed, by container id.
    pub(super) hooks: HashMap<String, PostStart>,
    /// The last container of each name whose back-off was recorded.
    pub(super) reported_back_off: HashMap<String, String>,
    /// Why it has to end and fail, whatever its containers do, or may not even start.
    pub(super) termination: Option<Termination>,
    /// Its control group was limited, for good.
    pub(super) limited: bool,
    /// Its volumes were removed, since it is over.
    pub(super) volumes_removed: bool,
    /// Its time is up, and that was recorded.
    pub(super) reported_deadline: bool,
    /// It has been ended in order.
    pub(super) ended: bool,
    /// Containers being stopped, and when their time is up.
    pub(super) stops: HashMap<String, Timestamp>,
    /// Images being pulled, or that could not be.
    pub(super) pulls: HashMap<String, Pull>,
    /// Nothing runs that the runtime does not know, as far as is known since that was looked for last.
    pub(super) no_strays: bool,
    /// Containers whose start failed and of which nothing runs.
    settled: BTreeSet<String>,
    /// What containers that have ended said last, by container id.
    pub(super) termination_messages: HashMap<String, TerminationMessage>,
    /// Cancelled when the container of this id has ended.
    alive: HashMap<String, CancellationToken>,
    /// When this agent fetched the tokens of the pod's volumes, by volume and path.
    pub(super) tokens: HashMap<(String, String), Instant>,
}

/// A pod that has to end although nobody deleted it, or that may not start.
#[derive(Clone, Debug)]
pub(crate) struct Termination {
    /// Reason and message of its status.
    pub(crate) why: Waiting,
    /// How long its containers have at most; `None`: as long as they may have anyway.
    pub(crate) grace: Option<Duration>,
    /// What its status says of having been disrupted, if that it ends is not its own fault.
    pub(crate) disrupted: Option<String>,
}

/// What was decided about a pod, for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It runs.
    Admitted,
    /// It never runs.
    Rejected(Waiting),
}

/// A container's postStart hook, as long as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PostStart {
    /// It runs.
    Running,
    /// It failed; its container has to go.
    Failed,
}

/// What is known of the termination message of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TerminationMessage {
    /// The disk was asked and has not answered.
    Asked,
    /// What there was; whether there can be no more, and whether the disk was asked again.
    Read { text: String, whole: bool, asked: bool },
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
        reported: bool,
    },
}

impl PodCache {
    /// Uses the state of a pod, which is made when it is missing. The lock is held: `act` must be short.
    pub(super) fn with<T>(&self, uid: &str, act: impl FnOnce(&mut PodState) -> T) -> T {
        let states = &mut self.0.lock().states;
        if let Some(state) = states.get_mut(uid) {
            return act(state);
        }
        act(states.entry(uid.to_owned()).or_default())
    }

    /// What there is of the pod, as its sync observes it.
    pub(crate) fn observed(&self, uid: &str, items: BTreeSet<Item>) {
        self.with(uid, |state| state.items = Some(items));
    }

    /// The pods of which there was something in the runtime's lists.
    pub(crate) fn listed(&self, uids: HashSet<String>) {
        self.0.lock().listed = Some(uids);
    }

    /// Whether the pod was never synced, and the runtime had nothing of it when it was last asked for all that it has. Then
    /// it has nothing now, but for what an agent before this one asked for as it was killed: the name of that is taken, which
    /// whoever makes it again is told.
    pub(super) fn is_new(&self, uid: &str) -> bool {
        let notes = self.0.lock();
        notes.listed.as_ref().is_some_and(|listed| !listed.contains(uid))
            && notes.states.get(uid).is_none_or(|state| state.items.is_none())
    }

    /// The pod is being synced from now on, or is not any more.
    pub(crate) fn set_syncing(&self, uid: &str, syncing: bool) {
        self.with(uid, |state| state.syncing = syncing);
    }

    /// Whether the pod is being synced now.
    pub(crate) fn is_syncing(&self, uid: &str) -> bool {
        self.0.lock().states.get(uid).is_some_and(|state| state.syncing)
    }

    /// The uid of the pod that had the sandbox or container of this id at its last sync.
    pub(crate) fn owner(&self, id: &str) -> Option<String> {
        let notes = self.0.lock();
        let mut all = notes.states.iter();
        all.find(|(_, state)| state.items.iter().flatten().any(|item| item.is(id)))
            .map(|(uid, _)| uid.clone())
    }

    /// Whether the last sync observed just that.
    pub(crate) fn has_observed(&self, uid: &str, items: &BTreeSet<Item>) -> bool {
        self.0.lock().states.get(uid).is_some_and(|state| state.items.as_ref() == Some(items))
    }

    /// The pod has to end. The first reason counts; whether this is it.
    pub(crate) fn mark_for_termination(&self, uid: &str, termination: Termination) -> bool {
        self.with(uid, |state| {
            let first = state.termination.is_none();
            state.termination.get_or_insert(termination);
            first
        })
    }

    /// Whether the pod has to end.
    pub(crate) fn is_marked_for_termination(&self, uid: &str) -> bool {
        self.0.lock().states.get(uid).is_some_and(|state| state.termination.is_some())
    }

    /// Whether the pod has been ended in order, so that nothing of it is left.
    pub(super) fn has_ended(&self, uid: &str) -> bool {
        self.0.lock().states.get(uid).is_some_and(|state| state.ended)
    }

    /// The pod is gone.
    pub(crate) fn forget(&self, uid: &str) {
        let mut notes = self.0.lock();
        notes.leave(uid);
        notes.states.remove(uid);
    }

    /// Forgets all pods but these.
    pub(crate) fn retain(&self, keep: impl Fn(&str) -> bool) {
        let mut notes = self.0.lock();
        let gone: Vec<String> = notes.states.extract_if(|uid, _| !keep(uid)).map(|(uid, _)| uid).collect();
        gone.iter().for_each(|uid| notes.leave(uid));
    }
}

impl Entries {
    /// Something of a pod that is forgotten may still be there when one of its uid comes, as static pods do.
    fn leave(&mut self, uid: &str) {
        self.listed = self.listed.take().filter(|listed| listed.len() < MAX_GONE);
        if let Some(listed) = &mut self.listed {
            listed.insert(uid.to_owned());
        }
    }
}

impl PodState {
    /// Containers that have ended without having begun, and were not here at the last sync. A runtime may have lost sight of
    /// what it started for them.
    pub(super) fn unsettled(&mut self, observed: &Observed) -> Vec<String> {
        let failed = observed.containers.iter().filter(|container| container.never_ran());
        let failed: BTreeSet<String> = failed.map(|container| container.id.clone()).collect();
        let new = failed.difference(&self.settled).cloned().collect();
        self.settled = failed;
        new
    }

    /// Cancelled when a sync finds that the container has ended, or is gone.
    pub(super) fn while_alive(&mut self, id: &str) -> CancellationToken {
        self.alive.entry(id.to_owned()).or_default().clone()
    }

    /// What was to go on while containers are alive ends with them.
    pub(super) fn note_ended(&mut self, observed: &Observed) {
        let lives =
            |id: &str| observed.containers.iter().any(|one| one.id == id && one.exit_code().is_none());
        self.alive.retain(|id, token| {
            let lives = lives(id);
            if !lives {
                token.cancel();
            }
            lives
        });
    }

    /// When the pod may be worked on, if not now: its volumes are not there, or its sandbox could not be made lately.
    pub(super) fn held_up_until(&self, now: Timestamp) -> Option<Timestamp> {
        let held_up = self.held_up.as_ref();
        let held_up = held_up.filter(|one| !one.is_over(now) || self.volumes_until.is_none());
        held_up.map(|held_up| held_up.retry_at)
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

impl PodState {
    /// The cloud is connected again: what could not be had without it is tried at once. Whether there is anything of that kind.
    pub(super) fn cloud_returned(&mut self) -> bool {
        let waits = self.held_up.is_some() || !self.blocked.is_empty();
        if waits {
            self.reconsider();
        }
        waits
    }
}

impl Blocked {
    /// Whether it may be tried again.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        moment::is_over(self.retry_at, now, MAX_WAIT)
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edged::observed::{Container, State};

    fn ended(id: &str, started_at: Option<Timestamp>) -> Container {
        let state = State::Exited {
            started_at,
            finished_at: Timestamp::UNIX_EPOCH,
            exit_code: 128,
            reason: String::new(),
            message: String::new(),
        };
        Container { id: id.into(), state, ..Container::test("web") }
    }

    #[test]
    fn a_pod_is_new_that_nobody_has_looked_at_and_no_list_has() {
        let pod_cache = PodCache::default();
        assert!(!pod_cache.is_new("a"), "nothing was listed");
        pod_cache.listed(["old".to_owned()].into());
        assert_eq!(["a", "old"].map(|uid| pod_cache.is_new(uid)), [true, false]);
        pod_cache.observed("a", BTreeSet::new());
        assert!(!pod_cache.is_new("a"), "it was looked at");
        pod_cache.forget("a");
        pod_cache.retain(|uid| uid != "b");
        assert!(!pod_cache.is_new("a"), "what it had may still be there");
        pod_cache.observed("c", BTreeSet::new());
        pod_cache.retain(|_| false);
        assert!(!pod_cache.is_new("c"), "the same");
        pod_cache.listed(HashSet::new());
        assert_eq!(["a", "c"].map(|uid| pod_cache.is_new(uid)), [true; 2], "it is gone");
        for number in 0..=MAX_GONE {
            pod_cache.forget(&number.to_string());
        }
        assert!(!pod_cache.is_new("d"), "not all that went are kept in mind");
    }

    #[test]
    fn what_goes_on_with_a_container_ends_with_it() {
        let mut state = PodState::default();
        let [lives, ends, gone] = ["lives", "ends", "gone"].map(|id| state.while_alive(id));
        let running = State::Running { started_at: Timestamp::UNIX_EPOCH };
        let lives_on = Container { id: "lives".into(), state: running, ..Container::test("web") };
        state.note_ended(&Observed::new(vec![], vec![lives_on, ended("ends", Some(Timestamp::UNIX_EPOCH))]));
        assert_eq!([lives, ends, gone].map(|token| token.is_cancelled()), [false, true, true]);
        assert!(!state.while_alive("lives").is_cancelled());
    }

    #[test]
    fn a_start_that_failed_is_looked_after_once() {
        let mut state = PodState::default();
        let (failed, ran) = (ended("1", None), ended("2", Some(Timestamp::UNIX_EPOCH)));
        let observed = Observed::new(vec![], vec![failed, ran]);
        assert_eq!(state.unsettled(&observed), ["1"]);
        assert!(state.unsettled(&observed).is_empty());
        state.unsettled(&Observed::default());
        assert!(state.settled.is_empty(), "what is gone is forgotten");
    }

    #[test]
    fn a_clock_that_is_set_back_blocks_nothing() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let blocked = Blocked::after(None, Waiting::new("x", ""), at(1000));
        let over = [999, 1000, 1001, 900].map(|now| blocked.is_over(at(now)));
        assert_eq!(over, [false, false, true, true]);
    }
}
