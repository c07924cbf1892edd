//! The pod lifecycle event generator: what happens in the runtime triggers the pods that it happens to.

mod pace;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::{Notify, mpsc};
use wire::cri;

use self::pace::{Found, Pace};
use super::{
    groups::{Groups, Held, Watch},
    metrics::Metrics,
    names,
    observed::Item,
    pods::{PodCache, trigger::Trigger},
    runtime::{CallError, Runtime},
};
use crate::rt::{Repeated, now};

/// A stream of events that ended is asked for again after this; meanwhile the lists are compared.
const RESUBSCRIBE_DELAY: Duration = Duration::from_secs(5);

/// What the generator follows, and whom it tells.
pub(super) struct Deps {
    /// The container runtime: events and lists.
    pub(super) runtime: Runtime,
    /// The pods' control groups, which tell when a container has ended.
    pub(super) groups: Groups,
    /// This node's pods.
    pub(super) pods: Store<Pod>,
    /// What the last sync of each pod has seen.
    pub(super) pod_cache: PodCache,
    /// Triggers pods.
    pub(super) triggers: mpsc::Sender<Trigger>,
    /// Counts comparisons of lists.
    pub(super) metrics: Metrics,
    /// Told when something was started or has ended.
    pub(super) runtime_changed: Arc<Notify>,
    /// Wakes whoever removes what pods left behind.
    pub(super) orphaned: Arc<Notify>,
}

/// Triggers pods until the receiver is gone. Events are best; while the runtime has none to offer, its lists are compared
/// every `relist`, and less often where the kernel tells when containers have ended.
pub(super) async fn run(deps: Deps, relist: Duration) {
    let (groups, pace) = (deps.groups.watch(), Pace::new(relist));
    let mut lists = Lists {
        last: Snapshot::default(),
        deps: &deps,
        groups,
        pace,
        watched: false,
        away: false,
        faults: Repeated::default(),
    };
    let (runtime, mut wait) = (&deps.runtime, Duration::ZERO);
    loop {
        let stream = subscribe(wait, || runtime.events());
        let Some(stream) = beside(stream, lists.compare_with_tasks()).await else { return };
        let ended = follow(stream, &deps).await;
        deps.orphaned.notify_one();
        if matches!(ended, Ended::Receiver) {
            return;
        }
        wait = RESUBSCRIBE_DELAY;
    }
}

/// The stream of events, asked for after `wait` and then again and again.
async fn subscribe<S, E, F>(mut wait: Duration, ask: impl Fn() -> F) -> S
where
    E: std::error::Error + 'static,
    F: Future<Output = Result<S, E>>,
{
    loop {
        tokio::time::sleep(wait).await;
        match ask().await {
            Ok(stream) => return stream,
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "no events: lists are compared");
            }
        }
        wait = RESUBSCRIBE_DELAY;
    }
}

/// What `subscribed` gives, while lists are compared, which goes on over all its attempts: a runtime may answer only with its first
/// event, and a list may take longer than the time between two attempts. `None` where comparing has ended.
async fn beside<S>(subscribed: impl Future<Output = S>, compared: impl Future<Output = ()>) -> Option<S> {
    tokio::select! {
        // Cancel-safe, both: a comparison that is not made to its end is made again where it is needed.
        stream = subscribed => Some(stream),
        () = compared => None,
    }
}

enum Ended {
    Stream,
    Receiver,
}

async fn follow(mut stream: tonic::Streaming<cri::ContainerEventResponse>, deps: &Deps) -> Ended {
    let triggers = &deps.triggers;
    // What happened before the stream began is not in it.
    if triggers.send(Trigger::All).await.is_err() {
        return Ended::Receiver;
    }
    loop {
        let event = match stream.message().await {
            Ok(Some(event)) => event,
            Ok(None) => return Ended::Stream,
            Err(status) => {
                tracing::debug!(%status, "the stream of events broke: lists are compared");
                return Ended::Stream;
            }
        };
        let Some(pod) = owner(event, &deps.pod_cache, &deps.pods.state()) else { continue };
        if triggers.send(Trigger::Pod(pod)).await.is_err() {
            return Ended::Receiver;
        }
    }
}

/// The pod that an event is about. One that comes when the sandbox is gone does not say, but for the container's own labels; else
/// it is the pod that had something of this id at its last sync.
fn owner(
    event: cri::ContainerEventResponse,
    pod_cache: &PodCache,
    pods: &[Arc<Pod>],
) -> Option<ObjectRef<Pod>> {
    if let Some(metadata) = event.pod_sandbox_status.and_then(|status| status.metadata) {
        return Some(ObjectRef::new(&metadata.name).within(&metadata.namespace));
    }
    let labels = event.containers_statuses.into_iter().map(|status| status.labels);
    let mut named = labels.filter_map(|labels| {
        Some((labels.get(names::POD_NAME)?.clone(), labels.get(names::POD_NAMESPACE)?.clone()))
    });
    if let Some((name, namespace)) = named.next() {
        return Some(ObjectRef::new(&name).within(&namespace));
    }
    let uid = pod_cache.owner(&event.container_id)?;
    let pod = pods.iter().find(|pod| pod.metadata.uid.as_ref() == Some(&uid))?;
    Some(ObjectRef::from_obj(pod.as_ref()))
}

/// Whose a sandbox or container is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    namespace: String,
    name: String,
    uid: String,
}

/// What there is of each pod.
type Snapshot = BTreeMap<Owner, BTreeSet<Item>>;

/// The lists as they were last.
struct Lists<'a> {
    last: Snapshot,
    deps: &'a Deps,
    groups: Watch,
    pace: Pace,
    /// Whether the kernel tells of all containers.
    watched: bool,
    /// The runtime did not answer: when it does, it may have lost something.
    away: bool,
    /// How often that was logged.
    faults: Repeated,
}

impl Lists<'_> {
    /// Compares them, and sooner where containerd itself tells that there is something new. Returns only when the receiver is gone.
    async fn compare_with_tasks(&mut self) {
        let deps = self.deps;
        tokio::select! {
            // cancel-safe: the stream is asked for again
            () = deps.runtime.follow_tasks(&deps.runtime_changed) => {}
            // cancel-safe, as in `beside`
            () = self.compare_for_ever() => {}
        }
    }

    /// Returns only when the receiver is gone.
    async fn compare_for_ever(&mut self) {
        loop {
            let begun = Instant::now();
            let wait = match snapshot(&self.deps.runtime).await {
                Ok((mut now, held)) => {
                    let took = begun.elapsed();
                    self.deps.metrics.relisted(took);
                    self.deps.pod_cache.listed(now.keys().map(|owner| owner.uid.clone()).collect());
                    let found = Found {
                        changed: now != self.last,
                        ended: has_ended(&self.last, &now),
                        watched: self.watched,
                    };
                    defer_syncing(&self.last, &mut now, &self.deps.pod_cache);
                    for pod in changed(&self.last, &now, &self.deps.pod_cache) {
                        if self.deps.triggers.send(Trigger::Pod(pod)).await.is_err() {
                            return;
                        }
                    }
                    self.last = now;
                    if std::mem::take(&mut self.away) {
                        self.is_back();
                        self.deps.orphaned.notify_one();
                    }
                    self.watched = self.groups.follow(&held);
                    self.pace.after(found, took, Instant::now())
                }
                Err(error) => {
                    self.is_away(&error);
                    self.pace.every()
                }
            };
            // Cancel-safe, all: they only decide when the next comparison is.
            tokio::select! {
                () = tokio::time::sleep(wait) => continue,
                () = self.groups.ended() => {
                    tracing::debug!("a control group has gone: the runtime's lists are compared");
                    self.pace.group_gone(Instant::now());
                }
                () = self.deps.runtime_changed.notified() => self.pace.moved(Instant::now()),
            }
            tokio::time::sleep(self.pace.soon()).await;
        }
    }
}

impl Lists<'_> {
    /// Told here for all that needs the runtime: one line, again at growing intervals.
    fn is_away(&mut self, error: &CallError) {
        self.away = true;
        if !error.is_unreachable() {
            return tracing::debug!(error = error as &dyn std::error::Error, "the runtime is not listed");
        }
        if let Some(times) = self.faults.count("away", now()) {
            tracing::warn!(
                times,
                error = error.message(),
                "the container runtime is away, and all pods wait for it"
            );
        }
    }

    fn is_back(&mut self) {
        if std::mem::take(&mut self.faults).has_any() {
            tracing::info!("the container runtime answers again");
        }
    }
}

/// The lists, and the pods that can be watched: those that have a sandbox.
async fn snapshot(runtime: &Runtime) -> Result<(Snapshot, BTreeSet<Held>), CallError> {
    let (sandboxes, containers) = tokio::try_join!(runtime.sandboxes(None), runtime.containers(None))?;
    let ready = sandboxes.iter().filter(|one| one.state() == cri::PodSandboxState::SandboxReady);
    let held = ready.filter_map(|one| Some((one.labels.get(names::POD_UID)?.clone(), one.id.clone())));
    let held = held.collect();
    let sandboxes = sandboxes.into_iter().map(|sandbox| {
        let ready = sandbox.state() == cri::PodSandboxState::SandboxReady;
        (sandbox.labels, Item::sandbox(sandbox.id, ready))
    });
    let containers = containers.into_iter().map(|container| {
        let state = container.state();
        (container.labels, Item::container(container.id, state))
    });
    let mut snapshot = Snapshot::new();
    for (mut labels, item) in sandboxes.chain(containers) {
        if let (Some(namespace), Some(name)) =
            (labels.remove(names::POD_NAMESPACE), labels.remove(names::POD_NAME))
        {
            let uid = labels.remove(names::POD_UID).unwrap_or_default();
            snapshot.entry(Owner { namespace, name, uid }).or_default().insert(item);
        }
    }
    Ok((snapshot, held))
}

/// Whether a container that ran has ended.
fn has_ended(last: &Snapshot, now: &Snapshot) -> bool {
    now.iter()
        .any(|(owner, items)| last.get(owner).is_some_and(|before| items.iter().any(|item| item.ran(before))))
}

/// The pods of which something came, went or changed, but for those that were seen as they are now: above all what the agent
/// itself has started.
fn changed(last: &Snapshot, now: &Snapshot, pod_cache: &PodCache) -> Vec<ObjectRef<Pod>> {
    let owners: BTreeSet<_> = last.keys().chain(now.keys()).collect();
    let changed = owners.into_iter().filter(|owner| {
        let items = now.get(*owner);
        last.get(*owner) != items && !items.is_some_and(|items| pod_cache.has_observed(&owner.uid, items))
    });
    changed.map(|owner| ObjectRef::new(&owner.name).within(&owner.namespace)).collect()
}

/// A pod that is being synced now stays as it was `last`, and is compared again next time.
fn defer_syncing(last: &Snapshot, now: &mut Snapshot, pod_cache: &PodCache) {
    let owners = last.keys().chain(now.keys());
    let syncing =
        owners.filter(|owner| last.get(*owner) != now.get(*owner) && pod_cache.is_syncing(&owner.uid));
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
        assert_eq!(beside(subscribe(Duration::ZERO, refused), list).await, None);
    }

    fn snapshot(all: &[(&str, &str, cri::ContainerState)]) -> Snapshot {
        let mut snapshot = Snapshot::new();
        for (name, id, state) in all {
            let owner = Owner { namespace: "ns".into(), name: (*name).into(), uid: format!("uid of {name}") };
            snapshot.entry(owner).or_default().insert(Item::container((*id).to_owned(), *state));
        }
        snapshot
    }

    fn names(last: &Snapshot, now: &Snapshot, pod_cache: &PodCache) -> Vec<String> {
        changed(last, now, pod_cache).into_iter().map(|pod| pod.name).collect()
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
        assert_eq!(names(&last, &now, &PodCache::default()), ["ended", "gone", "more", "new"]);
    }

    #[test]
    fn a_pod_that_is_synced_is_compared_again_next_time() {
        let running = |name, id| (name, id, cri::ContainerState::ContainerRunning);
        let last = snapshot(&[running("old", "1"), running("same", "3")]);
        let listed = snapshot(&[running("old", "2"), running("new", "4"), running("same", "3")]);
        let pod_cache = PodCache::default();
        let hold = |syncing| {
            ["new", "old", "same"].map(|name| pod_cache.set_syncing(&format!("uid of {name}"), syncing))
        };
        hold(true);
        let mut now = listed.clone();
        defer_syncing(&last, &mut now, &pod_cache);
        assert_eq!((changed(&last, &now, &pod_cache), &now), (vec![], &last));
        hold(false);
        // What its own sync has seen meanwhile is no news.
        let new = listed.iter().filter(|(owner, _)| owner.name == "new");
        new.for_each(|(owner, items)| pod_cache.observed(&owner.uid, items.clone()));
        assert_eq!(names(&now, &listed, &pod_cache), ["old"]);
    }

    #[test]
    fn an_event_without_a_sandbox_is_some_pods_too() {
        let pod = |name: &str| -> Arc<Pod> {
            let metadata =
                serde_json::json!({"name": name, "namespace": "ns", "uid": format!("uid of {name}")});
            Arc::new(serde_json::from_value(serde_json::json!({"metadata": metadata})).unwrap())
        };
        let pod_cache = PodCache::default();
        for (owner, items) in snapshot(&[("web", "1", cri::ContainerState::ContainerRunning)]) {
            pod_cache.observed(&owner.uid, items);
        }
        let pods = [pod("db"), pod("web")];
        let name = |event: cri::ContainerEventResponse| owner(event, &pod_cache, &pods).map(|pod| pod.name);
        let bare = |id: &str| cri::ContainerEventResponse { container_id: id.into(), ..Default::default() };
        assert_eq!(name(bare("1")).as_deref(), Some("web"));
        assert_eq!(name(bare("2")), None, "nobody's");
        let labels = [(names::POD_NAME, "job"), (names::POD_NAMESPACE, "ns")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let status = cri::ContainerStatus { labels, ..Default::default() };
        let event = cri::ContainerEventResponse { containers_statuses: vec![status], ..bare("2") };
        assert_eq!(name(event).as_deref(), Some("job"));
    }

    #[test]
    fn what_ran_and_has_exited_has_ended() {
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
    fn what_was_seen_as_it_is_triggers_nothing() {
        use cri::ContainerState::{ContainerExited, ContainerRunning};
        let pod_cache = PodCache::default();
        let started = snapshot(&[("web", "1", ContainerRunning), ("db", "2", ContainerRunning)]);
        for (owner, items) in &started {
            pod_cache.observed(&owner.uid, items.clone());
        }
        assert_eq!(names(&Snapshot::new(), &started, &pod_cache), [""; 0]);
        let ended = snapshot(&[("web", "1", ContainerExited), ("db", "2", ContainerRunning)]);
        assert_eq!(names(&started, &ended, &pod_cache), ["web"]);
        // It went, and was not synced since.
        assert_eq!(names(&ended, &Snapshot::new(), &pod_cache), ["db", "web"]);
    }
}
