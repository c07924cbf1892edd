//! Binds pods without a node to edge nodes as kube-scheduler's default profile does: with its filters, most of its scores, its queue, its
//! preemption and its messages. Switched off if a real scheduler runs.
//!
//! In: watches of pods, nodes, volumes, budgets and namespaces. Out: bindings, conditions, evictions of less important pods. One task
//! decides about one pod at a time, and takes its own decisions into account at once; see [`mod@decide`].

use std::{collections::BTreeMap, future::pending, sync::Arc, time::Duration};

use k8s_openapi::api::{
    core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod},
    policy::v1::PodDisruptionBudget,
    storage::v1::StorageClass,
};
use kube::{Resource, ResourceExt};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, sleep_until, timeout},
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
        writer,
        metrics,
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
    writer: Writer,
    metrics: SchedulerMetrics,
}

impl Scheduler {
    async fn run(mut self, mut changes: Changes, stop: &CancellationToken) {
        self.load();
        let mut flush = tokio::time::interval(FLUSH_INTERVAL);
        flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.drain(&mut changes);
            if let Some(pod) = self.state.queue.pop(Instant::now()) {
                self.metrics.pending(self.state.queue.lengths());
                let name = pod.name_any();
                let scheduling = catch_panic(NAME, &name, self.schedule(&pod));
                let Some(done) = stop.run_until_cancelled(scheduling).await else {
                    return;
                };
                if done.is_err() {
                    self.state.forget(&pod);
                    let uid = pod.uid().unwrap_or_default();
                    self.state.queue.retry_later(&uid, Instant::now());
                }
                continue;
            }
            self.metrics.pending(self.state.queue.lengths());
            let due = self.state.queue.next_due();
            let retry = async {
                match due {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            // every branch can be dropped at its await: messages stay in their channel, and ticks come again
            clock::select! {
                () = stop.cancelled() => return,
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

    fn decide(&self, pod: &Pod, nominated: &[Arc<Pod>]) -> Decision {
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

    async fn schedule(&mut self, pod: &Pod) {
        let uid = pod.uid().unwrap_or_default();
        let nominated = self.state.queue.nominated_pods();
        let mut found = Attempt::Unschedulable;
        let written = match self.decide(pod, &nominated) {
            Decision::Bind(node) if !self.unprovisioned_claims(pod).is_empty() => {
                // the pod is tried again when its claims are bound
                let claims = self.unprovisioned_claims(pod);
                timeout(WRITE_TIMEOUT, self.writer.select_node(&claims, &node)).await
            }
            Decision::Bind(node) => {
                found = Attempt::Scheduled;
                self.state.assume(pod, &node);
                let written = timeout(WRITE_TIMEOUT, self.writer.bind(pod, &node)).await;
                if !matches!(written, Ok(Ok(true))) {
                    self.state.forget(pod);
                }
                written.map(|bound| bound.map(drop))
            }
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
        self.metrics.attempt(if matches!(written, Ok(Ok(()))) {
            found
        } else {
            Attempt::Error
        });
        match written {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                warn!(pod = %pod.name_any(), error = &error as &dyn std::error::Error, "failed to schedule pod; retrying");
                self.state.queue.retry_later(&uid, Instant::now());
            }
            Err(_) => {
                warn!(pod = %pod.name_any(), "failed to schedule pod: API request timed out; retrying");
                self.state.queue.retry_later(&uid, Instant::now());
            }
        }
    }
}
