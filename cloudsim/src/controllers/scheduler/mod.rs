//! Binds pods without a node to edge nodes as kube-scheduler's default profile does: with its filters, most of its scores, its queue, its
//! preemption and its messages. Switched off if a real scheduler runs.
//!
//! In: watches of pods, nodes, volumes, budgets and namespaces. Out: bindings, conditions, evictions of less important pods. One task
//! decides about one pod at a time, and takes its own decisions into account at once; see [`mod@decide`]. Bindings are written beside the
//! decisions about later pods, as by kube-scheduler.

use std::{collections::BTreeMap, future::pending, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use k8s_openapi::api::{
    core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod},
    policy::v1::PodDisruptionBudget,
    storage::v1::StorageClass,
};
use kube::{Resource, ResourceExt};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, error::Elapsed, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

mod cycle_state;
mod decide;
mod filters;
mod messages;
mod metrics;
mod node_state;
mod nodes;
mod pod_affinity;
mod preemption;
mod preferences;
mod queue;
mod scores;
mod snapshot;
mod spread;
mod state;
mod status;
mod storage;
mod terms;
mod write;

pub(crate) use self::metrics::SchedulerMetrics;
pub(crate) use self::node_state::EDGE_LABEL;
pub use self::node_state::is_ready;
pub(crate) use self::storage::claims_of;
use self::{
    decide::{Decision, decide},
    metrics::Attempt,
    snapshot::Snapshot,
    state::SchedulerState,
    write::Writer,
};
use super::{
    informers::Change,
    panics::{catch_panic, catch_panic_in},
    workloads::cluster,
};

/// The name in the log.
const NAME: &str = "scheduler";
/// How often pods that were unschedulable for long are queued again.
const FLUSH_INTERVAL: Duration = Duration::from_secs(30);
/// How long the writes for one pod may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// How many bindings are written at a time; further pods wait in the queue.
const MAX_BINDINGS: usize = 32;

/// A binding that is being written: the pod, and whether it was bound; `None` after a panic.
type Binding = BoxFuture<'static, (Arc<Pod>, Option<Written<bool>>)>;
/// The result of requests that have [`WRITE_TIMEOUT`].
type Written<T> = Result<Result<T, kube::Error>, Elapsed>;

/// The changes that the scheduler follows; it reads other objects when it decides.
struct Changes {
    pods: mpsc::Receiver<Change<Pod>>,
    nodes: mpsc::Receiver<Change<Node>>,
    claims: mpsc::Receiver<Change<PersistentVolumeClaim>>,
    volumes: mpsc::Receiver<Change<PersistentVolume>>,
    classes: mpsc::Receiver<Change<StorageClass>>,
}

cluster!(Cluster {
    pods: Pod,
    nodes: Node,
    namespaces: Namespace,
    claims: PersistentVolumeClaim,
    volumes: PersistentVolume,
    classes: StorageClass,
    budgets: PodDisruptionBudget
});

/// Runs until `stop`.
pub(crate) async fn run(cluster: Cluster, metrics: SchedulerMetrics, stop: CancellationToken) {
    let changes = Changes {
        pods: cluster.pods.listen(),
        nodes: cluster.nodes.listen(),
        claims: cluster.claims.listen(),
        volumes: cluster.volumes.listen(),
        classes: cluster.classes.listen(),
    };
    let writer = Writer::new(cluster.client.clone(), cluster.events.clone());
    Scheduler {
        cluster,
        state: SchedulerState::default(),
        writer: Arc::new(writer),
        bindings: FuturesUnordered::new(),
        metrics,
        last_node: String::new(),
    }
    .run(changes, &stop)
    .await;
}

fn as_new<K>(object: Arc<K>) -> Change<K> {
    Change {
        before: None,
        object,
        gone: false,
    }
}

struct Scheduler {
    cluster: Cluster,
    state: SchedulerState,
    writer: Arc<Writer>,
    bindings: FuturesUnordered<Binding>,
    metrics: SchedulerMetrics,
    /// The node at which the search for a pod ended that fitted on enough nodes; empty if each was looked at.
    last_node: String,
}

impl Scheduler {
    async fn run(mut self, mut changes: Changes, stop: &CancellationToken) {
        self.load();
        let mut flush = tokio::time::interval(FLUSH_INTERVAL);
        flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.drain(&mut changes);
            // this also begins the bindings of the decisions before
            while let Some(Some((pod, written))) = self.bindings.next().now_or_never() {
                self.end_binding(&pod, written);
            }
            let can_bind = self.bindings.len() < MAX_BINDINGS;
            if let Some(pod) = can_bind
                .then(|| self.state.queue.pop(Instant::now()))
                .flatten()
            {
                self.metrics.pending(self.state.queue.lengths());
                let name = pod.name_any();
                let scheduling = catch_panic(NAME, &name, self.schedule(&pod));
                let Some(done) = stop.run_until_cancelled(scheduling).await else {
                    return;
                };
                if done.is_err() {
                    let uid = pod.uid().unwrap_or_default();
                    self.state.forget(&uid, self.current(&pod));
                    self.state.queue.retry_later(&uid, Instant::now());
                }
                continue;
            }
            self.metrics.pending(self.state.queue.lengths());
            let due = self.state.queue.next_due();
            let retry = async {
                match due.filter(|_| can_bind) {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            // every branch can be dropped at its await: messages stay in their channel, and ticks come again
            clock::select! {
                () = stop.cancelled() => return,
                Some((pod, written)) = self.bindings.next() => self.end_binding(&pod, written),
                Some(change) = changes.pods.recv() => self.apply(&change, SchedulerState::pod),
                Some(change) = changes.nodes.recv() => self.apply(&change, SchedulerState::node),
                Some(change) = changes.claims.recv() => self.apply(&change, SchedulerState::claim),
                Some(change) = changes.volumes.recv() => self.apply(&change, SchedulerState::volume),
                Some(change) = changes.classes.recv() => self.apply(&change, SchedulerState::class),
                _ = flush.tick() => self.state.queue.flush(Instant::now()),
                () = retry => {}
            }
        }
    }

    /// Applies a change; one that cannot be applied is ignored.
    fn apply<K: Resource>(
        &mut self,
        change: &Change<K>,
        apply: fn(&mut SchedulerState, &Change<K>),
    ) {
        let object = change.object.name_any();
        // logged there
        let _: Result<(), _> = catch_panic_in(NAME, &object, || apply(&mut self.state, change));
    }

    /// Loads the objects that existed before changes were followed.
    fn load(&mut self) {
        self.cluster
            .nodes
            .all()
            .into_iter()
            .for_each(|node| self.apply(&as_new(node), SchedulerState::node));
        self.cluster
            .claims
            .all()
            .into_iter()
            .for_each(|claim| self.apply(&as_new(claim), SchedulerState::claim));
        self.cluster
            .volumes
            .all()
            .into_iter()
            .for_each(|volume| self.apply(&as_new(volume), SchedulerState::volume));
        self.cluster
            .classes
            .all()
            .into_iter()
            .for_each(|class| self.apply(&as_new(class), SchedulerState::class));
        let mut pods = self.cluster.pods.all();
        pods.sort_by_key(|pod| (pod.metadata.creation_timestamp.clone(), pod.name_any()));
        pods.into_iter()
            .for_each(|pod| self.apply(&as_new(pod), SchedulerState::pod));
    }

    /// Applies all changes that are available now, so that the next decision includes them.
    fn drain(&mut self, changes: &mut Changes) {
        while let Ok(change) = changes.nodes.try_recv() {
            self.apply(&change, SchedulerState::node);
        }
        while let Ok(change) = changes.classes.try_recv() {
            self.apply(&change, SchedulerState::class);
        }
        while let Ok(change) = changes.volumes.try_recv() {
            self.apply(&change, SchedulerState::volume);
        }
        while let Ok(change) = changes.claims.try_recv() {
            self.apply(&change, SchedulerState::claim);
        }
        while let Ok(change) = changes.pods.try_recv() {
            self.apply(&change, SchedulerState::pod);
        }
    }

    fn decide(&mut self, pod: &Pod, nominated: &[Arc<Pod>]) -> Decision {
        let labels_of = |name: &str| -> BTreeMap<String, String> {
            let namespace = self.cluster.namespaces.get("", name);
            namespace
                .map(|namespace| namespace.labels().clone())
                .unwrap_or_default()
        };
        let SchedulerState { nodes, storage, .. } = &self.state;
        decide(
            pod,
            Snapshot {
                nodes,
                storage,
                namespaces: &labels_of,
                nominated,
            },
            &self.cluster.budgets.all(),
            &mut self.last_node,
        )
    }

    /// Returns the pod's claims whose volumes a provisioner is to create before the pod can be bound.
    fn unprovisioned_claims(&self, pod: &Pod) -> Vec<Arc<PersistentVolumeClaim>> {
        let volumes = pod
            .spec
            .as_ref()
            .and_then(|spec| self.state.storage.volumes(pod, spec).ok());
        volumes
            .map(|volumes| volumes.unprovisioned_claims())
            .unwrap_or_default()
    }

    /// Returns the pod as it is now, unless it was deleted or replaced.
    fn current(&self, pod: &Pod) -> Option<Arc<Pod>> {
        let namespace = pod.namespace().unwrap_or_default();
        let current = self.cluster.pods.get(&namespace, &pod.name_any());
        current.filter(|current| current.metadata.uid == pod.metadata.uid)
    }

    fn begin_binding(&mut self, pod: Arc<Pod>, node: String) {
        self.state.assume(&pod, &node);
        let writer = Arc::clone(&self.writer);
        self.bindings.push(Box::pin(async move {
            let binding = timeout(WRITE_TIMEOUT, writer.bind(&pod, &node));
            let written = catch_panic(NAME, &pod.name_any(), binding).await;
            (pod, written.ok())
        }));
    }

    fn end_binding(&mut self, pod: &Pod, written: Option<Written<bool>>) {
        let uid = pod.uid().unwrap_or_default();
        if !matches!(written, Some(Ok(Ok(true)))) {
            self.state.forget(&uid, self.current(pod));
        }
        match written {
            Some(written) => {
                let written = written.map(|bound| bound.map(drop));
                self.end_attempt(pod, written, Attempt::Scheduled);
            }
            None => self.state.queue.retry_later(&uid, Instant::now()),
        }
    }

    async fn schedule(&mut self, pod: &Arc<Pod>) {
        let uid = pod.uid().unwrap_or_default();
        let nominated = self.state.queue.nominated_pods();
        let written = match self.decide(pod, &nominated) {
            Decision::Bind(node) if !self.unprovisioned_claims(pod).is_empty() => {
                // the pod is tried again when its claims are bound
                let claims = self.unprovisioned_claims(pod);
                timeout(WRITE_TIMEOUT, self.writer.select_node(&claims, &node)).await
            }
            Decision::Bind(node) => return self.begin_binding(Arc::clone(pod), node),
            Decision::Wait(why) => {
                self.state.queue.mark_unschedulable(&uid, Instant::now());
                timeout(WRITE_TIMEOUT, self.writer.unschedulable(pod, &why, None)).await
            }
            Decision::Preempt(preemption, why) => {
                self.state.queue.mark_unschedulable(&uid, Instant::now());
                timeout(
                    WRITE_TIMEOUT,
                    self.writer.preempt(pod, &preemption, &why, &nominated),
                )
                .await
            }
        };
        self.end_attempt(pod, written, Attempt::Unschedulable);
    }

    /// Counts an attempt to schedule a pod. After a failed request, the pod is tried again.
    fn end_attempt(&mut self, pod: &Pod, written: Written<()>, result: Attempt) {
        self.metrics.attempt(match written {
            Ok(Ok(())) => result,
            Ok(Err(_)) | Err(_) => Attempt::Error,
        });
        let name = pod.name_any();
        match written {
            Ok(Ok(())) => return,
            Ok(Err(error)) => {
                warn!(pod = %name, error = &error as &dyn std::error::Error, "failed to schedule pod; retrying");
            }
            Err(_) => {
                warn!(pod = %name, "failed to schedule pod: API request timed out; retrying");
            }
        }
        let uid = pod.uid().unwrap_or_default();
        self.state.queue.retry_later(&uid, Instant::now());
    }
}
