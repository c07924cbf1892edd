//! The state of pods between two syncs. Nothing depends on it for correctness, only for back-off and efficiency: it is empty
//! after a restart of the agent, and everything is tried at once.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use clock::Instant;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{
    observed::{ListedItem, ObservedPod},
    resize::{KnownResources, ResizeStatus},
    status::Waiting,
    timestamps,
};

/// First delay before something that failed is tried again, doubled with each failure …
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// … up to this maximum.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(60);

/// How many removed pods are remembered until the runtime is listed again.
const MAX_REMOVED_PODS: usize = 4096;

/// States of all pods, by uid. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct PodCache(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    states: HashMap<String, PodState>,
    /// The pods that had sandboxes or containers when all were last listed, and those removed since. `None` if nothing was listed
    /// yet or too many pods were removed.
    listed: Option<HashSet<String>>,
}

/// The state of a pod.
#[derive(Default)]
pub(crate) struct PodState {
    /// When the pod was first synced.
    pub(super) first_seen: Option<Instant>,
    /// Whether the pod is being synced now.
    syncing: bool,
    /// Its sandboxes and containers at the last sync.
    items: Option<BTreeSet<ListedItem>>,
    /// How many syncs in a row failed.
    pub(super) failures: u32,
    /// The admission decision.
    pub(super) decision: Option<Decision>,
    /// Containers that cannot be started, with the reason.
    pub(super) blocked: BTreeMap<String, Blocked>,
    /// Why the whole pod cannot proceed.
    pub(super) held_up: Option<Blocked>,
    /// How often an object that the pod uses has changed. A reader of such objects compares the values before and after reading.
    pub(super) changes: u64,
    /// Until when the volumes are up to date.
    pub(super) volumes_valid_until: Option<Timestamp>,
    /// Hash of the labels and annotations from which the volumes were last written.
    pub(super) volumes_metadata_hash: Option<u64>,
    /// The last stored status, and the resource version of the pod that it was made from.
    pub(super) last_report: Option<(String, PodStatus)>,
    /// When all containers of a deleted pod must have ended.
    pub(super) end_by: Option<Timestamp>,
    /// PostStart hooks that run or have failed, by container id.
    pub(super) post_start_hooks: HashMap<String, PostStart>,
    /// Container name to the id of the container whose back-off was recorded as an event last.
    pub(super) reported_back_off: HashMap<String, String>,
    /// Why the pod has to end and fail, or may not start.
    pub(super) termination: Option<Termination>,
    /// Whether the limits of its control group are final.
    pub(super) has_final_limits: bool,
    /// Whether its volumes were removed after its end.
    pub(super) volumes_removed: bool,
    /// Whether the event of its exceeded deadline was recorded.
    pub(super) reported_deadline: bool,
    /// Whether the event was recorded that it waits for a device plugin.
    pub(super) reported_device_wait: bool,
    /// Whether the pod was terminated completely.
    pub(super) is_terminated: bool,
    /// Containers being stopped, and when they are killed.
    pub(super) stops: HashMap<String, Timestamp>,
    /// Pulls that are running or have failed, by image.
    pub(super) pulls: HashMap<String, Pull>,
    /// Whether the last search found no processes unknown to the runtime.
    pub(super) no_lost_containers: bool,
    /// Containers whose start failed and whose processes were ended.
    failed_starts: BTreeSet<String>,
    /// Termination messages by container id.
    pub(super) termination_messages: HashMap<String, TerminationMessage>,
    /// Tokens by container id, cancelled when the container has ended.
    lifetimes: HashMap<String, CancellationToken>,
    /// The resources of its containers, as far as this agent has started or changed them.
    pub(super) resources: KnownResources,
    /// Containers that were stopped to be started again with other resources, by the runtime's id.
    pub(super) replaced: HashSet<String>,
    /// The state of a resize.
    pub(super) resize: Option<ResizeStatus>,
    /// When this agent fetched the tokens of the pod's volumes, by volume and path.
    pub(super) tokens: HashMap<(String, String), Instant>,
}

/// Why and how a pod ends without being deleted, or may not start.
#[derive(Clone, Debug)]
pub(crate) struct Termination {
    /// Reason and message of the pod's status.
    pub(crate) why: Waiting,
    /// Maximum grace period of its containers; `None` for no maximum.
    pub(crate) grace: Option<Duration>,
    /// Message of the condition `DisruptionTarget`, if the pod does not end because of itself.
    pub(crate) disrupted: Option<String>,
}

/// The final admission decision about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The pod may run.
    Admitted,
    /// The pod never runs.
    Rejected(Waiting),
}

/// State of a container's postStart hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PostStart {
    /// The hook runs.
    Running,
    /// The hook failed; its container is stopped.
    Failed,
}

/// The termination message of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TerminationMessage {
    /// The file is being read.
    Reading,
    /// The text that was read, whether it is complete, and whether it is being read again.
    Read {
        text: String,
        is_complete: bool,
        is_reread: bool,
    },
}

/// An operation that failed and is tried again.
#[derive(Clone, Debug)]
pub(super) struct Blocked {
    /// Reason and message.
    pub(super) waiting: Waiting,
    /// How many times in a row it failed.
    pub(super) failures: u32,
    /// When it is tried again.
    pub(super) retry_at: Timestamp,
}

/// State of an image pull.
#[derive(Clone, Debug)]
pub(super) enum Pull {
    /// The pull runs.
    Running,
    /// The image was pulled and not used yet.
    Done,
    /// The pull failed.
    Failed {
        /// The runtime's error.
        message: String,
        /// How many pulls in a row have failed.
        failures: u32,
        /// When it is tried again.
        retry_at: Timestamp,
        /// Whether the failure was reported in the pod's status.
        reported: bool,
    },
}

impl PodCache {
    /// Calls `act` with the state of a pod, creating it if it is missing. The lock is held meanwhile, so `act` must be short.
    pub(super) fn with<T>(&self, uid: &str, act: impl FnOnce(&mut PodState) -> T) -> T {
        let states = &mut self.0.lock().states;
        if let Some(state) = states.get_mut(uid) {
            return act(state);
        }
        act(states.entry(uid.to_owned()).or_default())
    }

    /// Stores the sandboxes and containers that the pod's sync observed.
    pub(crate) fn store_observed(&self, uid: &str, items: BTreeSet<ListedItem>) {
        self.with(uid, |state| state.items = Some(items));
    }

    /// Stores the pods that have sandboxes or containers in the runtime's lists.
    pub(crate) fn store_listed(&self, uids: HashSet<String>) {
        self.0.lock().listed = Some(uids);
    }

    /// Reports whether the pod was never synced and the runtime's last lists contained nothing of it. Then it has nothing now,
    /// except for what a previous agent requested just before it was killed; creating that again fails because its name is taken.
    pub(super) fn is_new(&self, uid: &str) -> bool {
        let entries = self.0.lock();
        entries
            .listed
            .as_ref()
            .is_some_and(|listed| !listed.contains(uid))
            && entries
                .states
                .get(uid)
                .is_none_or(|state| state.items.is_none())
    }

    /// Sets whether the pod is being synced.
    pub(crate) fn set_syncing(&self, uid: &str, syncing: bool) {
        self.with(uid, |state| state.syncing = syncing);
    }

    /// Reports whether the pod is being synced now.
    pub(crate) fn is_syncing(&self, uid: &str) -> bool {
        self.0
            .lock()
            .states
            .get(uid)
            .is_some_and(|state| state.syncing)
    }

    /// Returns the uid of the pod that had the sandbox or container `id` at its last sync.
    pub(crate) fn owner(&self, id: &str) -> Option<String> {
        let entries = self.0.lock();
        let mut all = entries.states.iter();
        all.find(|(_, state)| state.items.iter().flatten().any(|item| item.has_id(id)))
            .map(|(uid, _)| uid.clone())
    }

    /// Reports whether the last sync observed exactly these items.
    pub(crate) fn has_observed(&self, uid: &str, items: &BTreeSet<ListedItem>) -> bool {
        self.0
            .lock()
            .states
            .get(uid)
            .is_some_and(|state| state.items.as_ref() == Some(items))
    }

    /// Marks the pod for termination. The first reason counts; returns whether this is it.
    pub(crate) fn mark_for_termination(&self, uid: &str, termination: Termination) -> bool {
        self.with(uid, |state| {
            let first = state.termination.is_none();
            state.termination.get_or_insert(termination);
            first
        })
    }

    /// Reports whether the pod is marked for termination.
    pub(crate) fn is_marked_for_termination(&self, uid: &str) -> bool {
        self.0
            .lock()
            .states
            .get(uid)
            .is_some_and(|state| state.termination.is_some())
    }

    /// Reports whether the pod was terminated completely.
    pub(super) fn has_ended(&self, uid: &str) -> bool {
        self.0
            .lock()
            .states
            .get(uid)
            .is_some_and(|state| state.is_terminated)
    }

    /// Removes the state of a pod that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        let mut entries = self.0.lock();
        entries.note_removed(uid);
        entries.states.remove(uid);
    }

    /// Removes the states of all pods except these.
    pub(crate) fn retain(&self, keep: impl Fn(&str) -> bool) {
        let mut entries = self.0.lock();
        let gone: Vec<String> = entries
            .states
            .extract_if(|uid, _| !keep(uid))
            .map(|(uid, _)| uid)
            .collect();
        gone.iter().for_each(|uid| entries.note_removed(uid));
    }
}

impl Entries {
    /// Notes that a pod's state was removed: some of its containers may still exist when a pod with the same uid comes, as a
    /// static pod may.
    fn note_removed(&mut self, uid: &str) {
        self.listed = self
            .listed
            .take()
            .filter(|listed| listed.len() < MAX_REMOVED_PODS);
        if let Some(listed) = &mut self.listed {
            listed.insert(uid.to_owned());
        }
    }
}

impl PodState {
    /// Returns containers that have ended without having run and were not there at the last sync. The runtime may have lost the
    /// processes that it started for them.
    pub(super) fn take_failed_starts(&mut self, observed: &ObservedPod) -> Vec<String> {
        let failed = observed
            .containers
            .iter()
            .filter(|container| container.never_ran());
        let failed: BTreeSet<String> = failed.map(|container| container.id.clone()).collect();
        let new = failed.difference(&self.failed_starts).cloned().collect();
        self.failed_starts = failed;
        new
    }

    /// Returns a token that is cancelled when a sync finds that the container has ended or is gone.
    pub(super) fn lifetime_token(&mut self, id: &str) -> CancellationToken {
        self.lifetimes.entry(id.to_owned()).or_default().clone()
    }

    /// Cancels the tokens of containers that have ended.
    pub(super) fn cancel_ended(&mut self, observed: &ObservedPod) {
        let lives = |id: &str| {
            observed
                .containers
                .iter()
                .any(|one| one.id == id && one.exit_code().is_none())
        };
        self.lifetimes.retain(|id, token| {
            let lives = lives(id);
            if !lives {
                token.cancel();
            }
            lives
        });
    }

    /// Returns until when the pod cannot proceed, because its volumes or its sandbox could not be created.
    pub(super) fn held_up_until(&self, now: Timestamp) -> Option<Timestamp> {
        let held_up = self.held_up.as_ref();
        let held_up =
            held_up.filter(|one| !one.may_retry(now) || self.volumes_valid_until.is_none());
        held_up.map(|held_up| held_up.retry_at)
    }

    /// Notes that an object that the pod uses has changed: what failed is tried again at once, and volumes are out of date.
    pub(super) fn retry_now(&mut self) {
        self.changes = self.changes.wrapping_add(1);
        self.volumes_valid_until = None;
        for blocked in self.blocked.values_mut().chain(self.held_up.as_mut()) {
            blocked.retry_at = Timestamp::MIN;
        }
    }
}

impl PodState {
    /// Makes everything that failed be tried again at once after the cloud was reconnected, and reports whether there was
    /// anything.
    pub(super) fn retry_failed(&mut self) -> bool {
        let waits = self.held_up.is_some() || !self.blocked.is_empty();
        if waits {
            self.retry_now();
        }
        waits
    }
}

impl Blocked {
    /// Reports whether it may be tried again.
    pub(super) fn may_retry(&self, now: Timestamp) -> bool {
        timestamps::has_elapsed(self.retry_at, now, MAX_WAIT)
    }

    /// Returns the state after one more failure than `last`.
    pub(super) fn next(last: Option<&Self>, waiting: Waiting, now: Timestamp) -> Self {
        let failures = last.map_or(0, |last| last.failures).saturating_add(1);
        Self {
            waiting,
            failures,
            retry_at: timestamps::after(now, exponential_delay(FIRST_WAIT, failures, MAX_WAIT)),
        }
    }
}

/// Returns `first`, doubled for each failure after the first one, up to `max`.
pub(super) fn exponential_delay(first: Duration, failures: u32, max: Duration) -> Duration {
    first
        .saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)))
        .min(max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::{Container, ObservedState};

    fn ended_container(id: &str, started_at: Option<Timestamp>) -> Container {
        let state = ObservedState::Exited {
            started_at,
            finished_at: Timestamp::UNIX_EPOCH,
            exit_code: 128,
            reason: String::new(),
            message: String::new(),
        };
        Container {
            id: id.into(),
            state,
            ..Container::test("web")
        }
    }

    #[test]
    fn unsynced_and_unlisted_pod_is_new() {
        let pod_cache = PodCache::default();
        assert!(!pod_cache.is_new("a"), "nothing was listed");
        pod_cache.store_listed(["old".to_owned()].into());
        assert_eq!(["a", "old"].map(|uid| pod_cache.is_new(uid)), [true, false]);
        pod_cache.store_observed("a", BTreeSet::new());
        assert!(!pod_cache.is_new("a"), "it was looked at");
        pod_cache.forget("a");
        pod_cache.retain(|uid| uid != "b");
        assert!(!pod_cache.is_new("a"), "what it had may still be there");
        pod_cache.store_observed("c", BTreeSet::new());
        pod_cache.retain(|_| false);
        assert!(!pod_cache.is_new("c"), "the same");
        pod_cache.store_listed(HashSet::new());
        assert_eq!(
            ["a", "c"].map(|uid| pod_cache.is_new(uid)),
            [true; 2],
            "it is gone"
        );
        for number in 0..=MAX_REMOVED_PODS {
            pod_cache.forget(&number.to_string());
        }
        assert!(!pod_cache.is_new("d"), "not all that went are kept in mind");
    }

    #[test]
    fn lifetime_token_is_cancelled_with_the_container() {
        let mut state = PodState::default();
        let [lives, ends, gone] = ["lives", "ends", "gone"].map(|id| state.lifetime_token(id));
        let running = ObservedState::Running {
            started_at: Timestamp::UNIX_EPOCH,
        };
        let lives_on = Container {
            id: "lives".into(),
            state: running,
            ..Container::test("web")
        };
        state.cancel_ended(&ObservedPod::new(
            vec![],
            vec![
                lives_on,
                ended_container("ends", Some(Timestamp::UNIX_EPOCH)),
            ],
        ));
        assert_eq!(
            [lives, ends, gone].map(|token| token.is_cancelled()),
            [false, true, true]
        );
        assert!(!state.lifetime_token("lives").is_cancelled());
    }

    #[test]
    fn failed_start_is_taken_once() {
        let mut state = PodState::default();
        let (failed, ran) = (
            ended_container("1", None),
            ended_container("2", Some(Timestamp::UNIX_EPOCH)),
        );
        let observed = ObservedPod::new(vec![], vec![failed, ran]);
        assert_eq!(state.take_failed_starts(&observed), ["1"]);
        assert!(state.take_failed_starts(&observed).is_empty());
        state.take_failed_starts(&ObservedPod::default());
        assert!(state.failed_starts.is_empty(), "what is gone is forgotten");
    }

    #[test]
    fn a_clock_that_is_set_back_blocks_nothing() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let blocked = Blocked::next(None, Waiting::new("x", ""), at(1000));
        let over = [999, 1000, 1001, 900].map(|now| blocked.may_retry(at(now)));
        assert_eq!(over, [false, false, true, true]);
    }
}
