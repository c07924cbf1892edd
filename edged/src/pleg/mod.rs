//! The pod lifecycle event generator (PLEG): changes in the container runtime trigger syncs of the pods that they concern.

mod relist_interval;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use clock::Instant;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::{ObjectRef, Store};
use limits::Repeated;
use tokio::sync::{Notify, mpsc};
use wire::cri;

use self::relist_interval::{Comparison, RelistInterval};
use super::{
    cgroups::{CgroupWatch, Cgroups, WatchedPod},
    metrics::Metrics,
    names,
    observed::ListedItem,
    pods::PodCache,
    runtime::{CallError, Runtime},
    trigger::Trigger,
};

/// Time after which events are subscribed to again when their stream has ended; meanwhile the lists are compared.
const RESUBSCRIBE_DELAY: Duration = Duration::from_secs(5);

/// What PLEG needs.
pub(super) struct Deps {
    /// The container runtime: events and lists.
    pub(super) runtime: Runtime,
    /// The pods' control groups, whose removal shows that a container has ended.
    pub(super) groups: Cgroups,
    /// This node's pods.
    pub(super) pods: Store<Pod>,
    /// What each pod's last sync observed.
    pub(super) pod_cache: PodCache,
    /// Triggers syncs of pods.
    pub(super) triggers: mpsc::Sender<Trigger>,
    /// Measures relists.
    pub(super) metrics: Metrics,
    /// Notified when a container or sandbox was started or has ended.
    pub(super) runtime_changed: Arc<Notify>,
    /// Wakes the garbage collection of deleted pods.
    pub(super) orphaned: Arc<Notify>,
}

/// Triggers syncs of pods until the receiver is closed. The runtime's events are preferred; while it has none, its lists are
/// compared every `relist`, and less often if the kernel reports ended containers.
pub(super) async fn run(deps: Deps, relist: Duration) {
    let (groups, relist_interval) = (deps.groups.watch(), RelistInterval::new(relist));
    let mut relister = Relister {
        last: Snapshot::default(),
        deps: &deps,
        groups,
        relist_interval,
        watched: false,
        unreachable: false,
        faults: Repeated::default(),
    };
    let (runtime, mut wait) = (&deps.runtime, Duration::ZERO);
    loop {
        let stream = subscribe(wait, || runtime.events());
        let Some(stream) = relist_until_subscribed(stream, Box::pin(relister.relist())).await
        else {
            return;
        };
        let ended = forward_events(stream, &deps).await;
        deps.orphaned.notify_one();
        if matches!(ended, FollowEnd::Receiver) {
            return;
        }
        wait = RESUBSCRIBE_DELAY;
    }
}

/// Subscribes to the runtime's events after `wait`, and tries again until it succeeds.
async fn subscribe<S, E, F>(mut wait: Duration, subscribe_once: impl Fn() -> F) -> S
where
    E: std::error::Error + 'static,
    F: Future<Output = Result<S, E>>,
{
    loop {
        tokio::time::sleep(wait).await;
        match subscribe_once().await {
            Ok(stream) => return stream,
            Err(error) => {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "cannot subscribe to container events; polling instead"
                );
            }
        }
        wait = RESUBSCRIBE_DELAY;
    }
}

/// Returns the result of `subscribed` while `compared` runs, over all attempts to subscribe: a runtime may answer only with its
/// first event, and a list may take longer than the time between two attempts. Returns `None` if `compared` ends.
async fn relist_until_subscribed<S>(
    subscribed: impl Future<Output = S>,
    compared: impl Future<Output = ()>,
) -> Option<S> {
    clock::select! {
        // cancel-safe: an interrupted comparison is repeated later.
        stream = subscribed => Some(stream),
        () = compared => None,
    }
}

enum FollowEnd {
    Stream,
    Receiver,
}

async fn forward_events(
    mut stream: tonic::Streaming<cri::ContainerEventResponse>,
    deps: &Deps,
) -> FollowEnd {
    let triggers = &deps.triggers;
    // The stream does not contain what happened before it began.
    if triggers.send(Trigger::All).await.is_err() {
        return FollowEnd::Receiver;
    }
    loop {
        let event = match stream.message().await {
            Ok(Some(event)) => event,
            Ok(None) => return FollowEnd::Stream,
            Err(status) => {
                tracing::debug!(%status, "stream of container events interrupted; polling instead");
                return FollowEnd::Stream;
            }
        };
        let Some(pod) = owner(event, &deps.pod_cache, &deps.pods.state()) else {
            continue;
        };
        if triggers.send(Trigger::Pod(pod)).await.is_err() {
            return FollowEnd::Receiver;
        }
    }
}

/// Returns the pod that an event is about. An event that comes after the removal of the sandbox names the pod only in the
/// container's labels, or not at all; then it is the pod that had an item with this id at its last sync.
fn owner(
    event: cri::ContainerEventResponse,
    pod_cache: &PodCache,
    pods: &[Arc<Pod>],
) -> Option<ObjectRef<Pod>> {
    if let Some(metadata) = event.pod_sandbox_status.and_then(|status| status.metadata) {
        return Some(ObjectRef::new(&metadata.name).within(&metadata.namespace));
    }
    let labels = event
        .containers_statuses
        .into_iter()
        .map(|status| status.labels);
    let mut named = labels.filter_map(|labels| {
        Some((
            labels.get(names::POD_NAME)?.clone(),
            labels.get(names::POD_NAMESPACE)?.clone(),
        ))
    });
    if let Some((name, namespace)) = named.next() {
        return Some(ObjectRef::new(&name).within(&namespace));
    }
    let uid = pod_cache.owner(&event.container_id)?;
    let pod = pods
        .iter()
        .find(|pod| pod.metadata.uid.as_ref() == Some(&uid))?;
    Some(ObjectRef::from_obj(pod.as_ref()))
}

/// The pod to which a sandbox or container belongs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    namespace: String,
    name: String,
    uid: String,
}

/// The listed sandboxes and containers of each pod.
type Snapshot = BTreeMap<Owner, BTreeSet<ListedItem>>;

/// Compares the runtime's lists with the previous ones.
struct Relister<'a> {
    last: Snapshot,
    deps: &'a Deps,
    groups: CgroupWatch,
    relist_interval: RelistInterval,
    /// Whether the kernel reports the end of all containers.
    watched: bool,
    /// Whether the runtime did not answer last time. When it answers again, it may have lost something.
    unreachable: bool,
    /// How often that was logged.
    faults: Repeated,
}

impl Relister<'_> {
    /// Compares the lists, earlier if containerd's task events say that something changed. Returns only when the receiver is
    /// closed.
    async fn relist(&mut self) {
        let deps = self.deps;
        clock::select! {
            // cancel-safe: the stream is subscribed to again
            () = deps.runtime.follow_tasks(&deps.runtime_changed) => {}
            // cancel-safe: as in `relist_until_subscribed`
            () = self.relist_forever() => {}
        }
    }

    /// Compares the lists again and again. Returns only when the receiver is closed.
    async fn relist_forever(&mut self) {
        loop {
            let begun = Instant::now();
            let wait = match snapshot(&self.deps.runtime).await {
                Ok((mut now, watched)) => {
                    let took = begun.elapsed();
                    self.deps.metrics.record_relist(took);
                    self.deps
                        .pod_cache
                        .store_listed(now.keys().map(|owner| owner.uid.clone()).collect());
                    let comparison = Comparison {
                        changed: now != self.last,
                        ended: has_ended(&self.last, &now),
                        watched: self.watched,
                    };
                    defer_syncing(&self.last, &mut now, &self.deps.pod_cache);
                    for pod in changed_pods(&self.last, &now, &self.deps.pod_cache) {
                        if self.deps.triggers.send(Trigger::Pod(pod)).await.is_err() {
                            return;
                        }
                    }
                    self.last = now;
                    if std::mem::take(&mut self.unreachable) {
                        self.log_reachable();
                        self.deps.orphaned.notify_one();
                    }
                    self.watched = self.groups.set_pods(&watched);
                    self.relist_interval
                        .after_comparison(comparison, took, Instant::now())
                }
                Err(error) => {
                    self.log_unreachable(&error);
                    self.relist_interval.every()
                }
            };
            // cancel-safe: they only decide when the next comparison is.
            clock::select! {
                () = tokio::time::sleep(wait) => continue,
                () = self.groups.wait_removed() => {
                    tracing::debug!("control group removed; listing containers");
                    self.relist_interval.group_gone(Instant::now());
                }
                () = self.deps.runtime_changed.notified() => self.relist_interval.state_changed(Instant::now()),
            }
            tokio::time::sleep(self.relist_interval.min_delay()).await;
        }
    }
}

impl Relister<'_> {
    /// Logs that the runtime does not answer, for all parts that need it: one line, repeated at growing intervals.
    fn log_unreachable(&mut self, error: &CallError) {
        self.unreachable = true;
        if !error.is_unreachable() {
            return tracing::debug!(
                error = error as &dyn std::error::Error,
                "failed to list containers"
            );
        }
        if let Some(times) = self.faults.count("away", clock::Instant::now()) {
            tracing::warn!(
                times,
                error = error.message(),
                "container runtime not responding; all pods wait"
            );
        }
    }

    fn log_reachable(&mut self) {
        if self.faults.recover() {
            tracing::info!("container runtime responding again");
        }
    }
}

/// Lists all sandboxes and containers, and returns with them the pods whose control groups can be watched: those with a ready
/// sandbox.
async fn snapshot(runtime: &Runtime) -> Result<(Snapshot, BTreeSet<WatchedPod>), CallError> {
    let (sandboxes, containers) =
        tokio::try_join!(runtime.sandboxes(None), runtime.containers(None))?;
    let ready = sandboxes
        .iter()
        .filter(|one| one.state() == cri::PodSandboxState::SandboxReady);
    let watched = ready.filter_map(|one| {
        let uid = one.labels.get(names::POD_UID)?.clone();
        Some(WatchedPod {
            uid,
            sandbox_id: one.id.clone(),
        })
    });
    let watched = watched.collect();
    let sandboxes = sandboxes.into_iter().map(|sandbox| {
        let ready = sandbox.state() == cri::PodSandboxState::SandboxReady;
        (sandbox.labels, ListedItem::sandbox(sandbox.id, ready))
    });
    let containers = containers.into_iter().map(|container| {
        let state = container.state();
        (container.labels, ListedItem::container(container.id, state))
    });
    let mut snapshot = Snapshot::new();
    for (mut labels, item) in sandboxes.chain(containers) {
        if let (Some(namespace), Some(name)) = (
            labels.remove(names::POD_NAMESPACE),
            labels.remove(names::POD_NAME),
        ) {
            let uid = labels.remove(names::POD_UID).unwrap_or_default();
            snapshot
                .entry(Owner {
                    namespace,
                    name,
                    uid,
                })
                .or_default()
                .insert(item);
        }
    }
    Ok((snapshot, watched))
}

/// Reports whether a running container has exited since the last list.
fn has_ended(last: &Snapshot, now: &Snapshot) -> bool {
    now.iter().any(|(owner, items)| {
        last.get(owner)
            .is_some_and(|before| items.iter().any(|item| item.has_exited_since(before)))
    })
}

/// Returns the pods whose items differ from the last list, except those whose last sync observed the same items, above all what
/// the agent itself has started.
fn changed_pods(last: &Snapshot, now: &Snapshot, pod_cache: &PodCache) -> Vec<ObjectRef<Pod>> {
    let owners: BTreeSet<_> = last.keys().chain(now.keys()).collect();
    let changed = owners.into_iter().filter(|owner| {
        let items = now.get(*owner);
        last.get(*owner) != items
            && !items.is_some_and(|items| pod_cache.has_observed(&owner.uid, items))
    });
    changed
        .map(|owner| ObjectRef::new(&owner.name).within(&owner.namespace))
        .collect()
}

/// Keeps the last items of pods that are being synced, so that they are compared again next time.
fn defer_syncing(last: &Snapshot, now: &mut Snapshot, pod_cache: &PodCache) {
    let owners = last.keys().chain(now.keys());
    let syncing = owners
        .filter(|owner| last.get(*owner) != now.get(*owner) && pod_cache.is_syncing(&owner.uid));
    for owner in syncing.cloned().collect::<BTreeSet<_>>() {
        match last.get(&owner) {
            Some(before) => now.insert(owner, before.clone()),
            None => now.remove(&owner),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_that_takes_longer_than_a_subscription_ends_all_the_same() {
        let refused = || std::future::ready(Err::<(), _>(std::fmt::Error));
        let list = tokio::time::sleep(RESUBSCRIBE_DELAY * 3);
        assert_eq!(
            relist_until_subscribed(subscribe(Duration::ZERO, refused), list).await,
            None
        );
    }

    fn snapshot(all: &[(&str, &str, cri::ContainerState)]) -> Snapshot {
        let mut snapshot = Snapshot::new();
        for (name, id, state) in all {
            let owner = Owner {
                namespace: "ns".into(),
                name: (*name).into(),
                uid: format!("uid of {name}"),
            };
            snapshot
                .entry(owner)
                .or_default()
                .insert(ListedItem::container((*id).to_owned(), *state));
        }
        snapshot
    }

    fn names(last: &Snapshot, now: &Snapshot, pod_cache: &PodCache) -> Vec<String> {
        changed_pods(last, now, pod_cache)
            .into_iter()
            .map(|pod| pod.name)
            .collect()
    }

    #[test]
    fn a_pod_is_triggered_when_anything_of_it_came_went_or_changed() {
        use cri::ContainerState::{ContainerCreated, ContainerExited, ContainerRunning};
        let running = |name, id| (name, id, ContainerRunning);
        let last = snapshot(&[
            running("same", "1"),
            running("ended", "2"),
            running("gone", "3"),
            running("more", "4"),
        ]);
        let now = snapshot(&[
            running("same", "1"),
            ("ended", "2", ContainerExited),
            running("more", "4"),
            running("more", "5"),
            ("new", "6", ContainerCreated),
        ]);
        assert_eq!(
            names(&last, &now, &PodCache::default()),
            ["ended", "gone", "more", "new"]
        );
    }

    #[test]
    fn a_pod_that_is_synced_is_compared_again_next_time() {
        let running = |name, id| (name, id, cri::ContainerState::ContainerRunning);
        let last = snapshot(&[running("old", "1"), running("same", "3")]);
        let listed = snapshot(&[
            running("old", "2"),
            running("new", "4"),
            running("same", "3"),
        ]);
        let pod_cache = PodCache::default();
        let hold = |syncing| {
            ["new", "old", "same"]
                .map(|name| pod_cache.set_syncing(&format!("uid of {name}"), syncing))
        };
        hold(true);
        let mut now = listed.clone();
        defer_syncing(&last, &mut now, &pod_cache);
        assert_eq!(
            (changed_pods(&last, &now, &pod_cache), &now),
            (vec![], &last)
        );
        hold(false);
        // What its own sync has seen meanwhile is no news.
        let new = listed.iter().filter(|(owner, _)| owner.name == "new");
        new.for_each(|(owner, items)| pod_cache.store_observed(&owner.uid, items.clone()));
        assert_eq!(names(&now, &listed, &pod_cache), ["old"]);
    }

    #[test]
    fn event_without_sandbox_status_finds_its_pod() {
        let pod = |name: &str| -> Arc<Pod> {
            let metadata = serde_json::json!({"name": name, "namespace": "ns", "uid": format!("uid of {name}")});
            Arc::new(serde_json::from_value(serde_json::json!({"metadata": metadata})).unwrap())
        };
        let pod_cache = PodCache::default();
        for (owner, items) in snapshot(&[("web", "1", cri::ContainerState::ContainerRunning)]) {
            pod_cache.store_observed(&owner.uid, items);
        }
        let pods = [pod("db"), pod("web")];
        let name = |event: cri::ContainerEventResponse| {
            owner(event, &pod_cache, &pods).map(|pod| pod.name)
        };
        let bare = |id: &str| cri::ContainerEventResponse {
            container_id: id.into(),
            ..Default::default()
        };
        assert_eq!(name(bare("1")).as_deref(), Some("web"));
        assert_eq!(name(bare("2")), None, "nobody's");
        let labels = [(names::POD_NAME, "job"), (names::POD_NAMESPACE, "ns")];
        let labels = labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let status = cri::ContainerStatus {
            labels,
            ..Default::default()
        };
        let event = cri::ContainerEventResponse {
            containers_statuses: vec![status],
            ..bare("2")
        };
        assert_eq!(name(event).as_deref(), Some("job"));
    }

    #[test]
    fn running_container_that_exits_has_ended() {
        use cri::ContainerState::{ContainerCreated, ContainerExited, ContainerRunning};
        let one = |state| snapshot(&[("web", "1", state)]);
        assert!(has_ended(&one(ContainerRunning), &one(ContainerExited)));
        for (last, now) in [
            (one(ContainerRunning), one(ContainerRunning)),
            (one(ContainerExited), one(ContainerExited)),
            (one(ContainerCreated), one(ContainerExited)),
            (Snapshot::new(), one(ContainerExited)),
            (one(ContainerRunning), Snapshot::new()),
        ] {
            assert!(!has_ended(&last, &now), "{last:?} → {now:?}");
        }
    }

    #[test]
    fn already_observed_changes_trigger_nothing() {
        use cri::ContainerState::{ContainerExited, ContainerRunning};
        let pod_cache = PodCache::default();
        let started = snapshot(&[
            ("web", "1", ContainerRunning),
            ("db", "2", ContainerRunning),
        ]);
        for (owner, items) in &started {
            pod_cache.store_observed(&owner.uid, items.clone());
        }
        assert_eq!(names(&Snapshot::new(), &started, &pod_cache), [""; 0]);
        let ended = snapshot(&[("web", "1", ContainerExited), ("db", "2", ContainerRunning)]);
        assert_eq!(names(&started, &ended, &pod_cache), ["web"]);
        // It went, and was not synced since.
        assert_eq!(names(&ended, &Snapshot::new(), &pod_cache), ["db", "web"]);
    }
}
