//! The eviction loop: reads the signals, updates the node's conditions, reclaims resources, and evicts a pod if there is no other
//! way.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ::limits::Repeated;
use clock::Instant;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::Store;
use tokio::sync::mpsc;

use crate::{
    ended_pods,
    events::{EventType, Recorder, reason},
    housekeeping::Keeper,
    names::Dirs,
    pods::{PodCache, Termination},
    pressure::{
        Condition, Pressure, limits,
        machine::Signals,
        measure, messages,
        rank::{self, DiskScope},
        signals::{ConditionText, Reading},
        state::{self, PressureState},
    },
    runtime::Runtime,
    settings::{Eviction, Signal, Threshold},
    specs::is_terminal,
    status::Waiting,
    trigger::Trigger,
};

/// Interval of readings; the kubelet's.
const MONITORING_INTERVAL: Duration = Duration::from_secs(10);
/// How long the next reading waits until an evicted pod is gone.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Grace period of pods that are evicted for a hard threshold or a limit of their own.
const HARD_EVICTION_GRACE: Duration = Duration::from_secs(1);

/// Evicts pods to keep the node from running out of shared resources.
pub(crate) struct Evictor {
    /// The node's name.
    pub(crate) node_name: String,
    /// The node's pressure conditions, for other parts.
    pub(crate) pressure: Pressure,
    /// The pods of this node.
    pub(crate) pods: Store<Pod>,
    /// Marks pods for termination.
    pub(crate) pod_cache: PodCache,
    /// Triggers pods that were marked.
    pub(crate) triggers: mpsc::Sender<Trigger>,
    /// Records evictions, and events of the node.
    pub(crate) events: Recorder,
    /// Reports what pods use.
    pub(crate) runtime: Runtime,
    /// The directories of pods.
    pub(crate) dirs: Dirs,
    /// Frees disk space without ending pods.
    pub(crate) keeper: Arc<Keeper>,
    /// Source of the signals.
    pub(crate) signals: Arc<dyn Signals>,
    /// Thresholds and limits.
    pub(crate) config: Eviction,
}

/// Runs the eviction loop. Never returns.
pub(crate) async fn run(evictor: Evictor) {
    let (mut state, mut shortages) = (PressureState::default(), Repeated::default());
    loop {
        match evictor.synchronize(&mut state, &mut shortages).await {
            // cancel-safe: a change that is missed is seen at the next reading.
            evicted if evicted.is_empty() => clock::select! {
                () = tokio::time::sleep(MONITORING_INTERVAL) => {}
                () = evictor.signals.wait_changed() => {}
            },
            // The resources that evicted pods release count before another pod is evicted.
            evicted => {
                let gone = ended_pods::wait_until_gone(&evictor.pods, &evictor.dirs, &evicted);
                let _ = tokio::time::timeout(EVICTION_TIMEOUT, gone).await;
            }
        }
    }
}

impl Evictor {
    /// Reads the signals once, acts on them, and returns the evicted pods. `shortages` limits how often a shortage is logged.
    async fn synchronize(
        &self,
        state: &mut PressureState,
        shortages: &mut Repeated,
    ) -> Vec<Arc<Pod>> {
        let reading = match self.config.thresholds.is_empty() {
            true => Reading::default(),
            false => self.signals.read().await,
        };
        let decision = state.update(&self.config, &reading, clock::now());
        self.report(&decision.conditions);
        let active = self.active();
        let evicted = self.evict_over_limits(&active, reading.image_disk).await;
        if !evicted.is_empty() {
            return evicted;
        }
        let Some(worst) = decision.met.first() else {
            if shortages.recover() {
                tracing::info!("resource pressure on the node ended");
            }
            return Vec::new();
        };
        let resource = worst.signal.resource();
        if let Some(times) = shortages.count(worst.signal.name(), Instant::now()) {
            tracing::warn!(
                resource = %resource,
                signal = worst.signal.name(),
                times,
                "node under resource pressure"
            );
        }
        let text = format!("Attempting to reclaim {resource}");
        self.events.node(
            &self.node_name,
            EventType::Warning,
            reason::EVICTION_THRESHOLD_MET,
            text,
        );
        if self.reclaim(worst.signal, reading.image_disk).await {
            return Vec::new();
        }
        let evicted = self.evict_one(active, worst, &decision.met, &reading).await;
        if evicted.is_none()
            && let Some(times) = shortages.count("no pod", Instant::now())
        {
            tracing::warn!(
                resource = %resource,
                times,
                "cannot evict any pod from a node under resource pressure"
            );
        }
        evicted.into_iter().collect()
    }

    /// Sets the node's conditions and records an event for each that has changed.
    fn report(&self, conditions: &BTreeSet<Condition>) {
        for (condition, holds) in self.pressure.set(conditions) {
            let ConditionText {
                kind,
                message,
                event,
                ..
            } = condition.text(holds);
            let text = format!("Node {} status is now: {event}", self.node_name);
            tracing::info!(condition = kind, holds, "{message}");
            self.events
                .node(&self.node_name, EventType::Normal, event, text);
        }
    }

    /// Returns the pods that run or shall run.
    fn active(&self) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.state();
        pods.retain(|pod| {
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            pod.metadata.deletion_timestamp.is_none()
                && !is_terminal(pod)
                && !self.pod_cache.is_marked_for_termination(uid)
        });
        pods
    }

    /// Evicts the pods that use more local storage than their limits.
    async fn evict_over_limits(&self, active: &[Arc<Pod>], image_disk: bool) -> Vec<Arc<Pod>> {
        if !self.config.storage_limits {
            return Vec::new();
        }
        let limited: Vec<_> = active
            .iter()
            .filter(|pod| limits::has_storage_limits(pod))
            .cloned()
            .collect();
        if limited.is_empty() {
            return Vec::new();
        }
        let usages = measure::usages(&self.runtime, &self.dirs, limited).await;
        let over = usages.into_iter().filter_map(|(pod, usage)| {
            let message = limits::exceeded_limit(&pod, &usage?, image_disk)?;
            self.evict(&pod, message, HARD_EVICTION_GRACE, false)
                .then_some(pod)
        });
        over.collect()
    }

    /// Frees disk space that no pod uses, if that can help, and reports whether there is enough then.
    async fn reclaim(&self, signal: Signal, image_disk: bool) -> bool {
        let helps = match signal {
            Signal::ImageFsAvailable | Signal::ImageFsInodesFree => true,
            Signal::NodeFsAvailable | Signal::NodeFsInodesFree => !image_disk,
            Signal::MemoryAvailable | Signal::PidAvailable => false,
        };
        if !helps {
            return false;
        }
        self.keeper.free_all().await;
        let reading = self.signals.read().await;
        !self
            .config
            .thresholds
            .iter()
            .any(|threshold| state::is_met(threshold, &reading, true))
    }

    async fn evict_one(
        &self,
        active: Vec<Arc<Pod>>,
        worst: &Threshold,
        met: &[Threshold],
        reading: &Reading,
    ) -> Option<Arc<Pod>> {
        let resource = worst.signal.resource();
        let mut pods = measure::usages(&self.runtime, &self.dirs, active).await;
        rank::rank(
            &mut pods,
            resource,
            disk_scope(worst.signal, reading.image_disk),
        );
        let grace = if worst.grace.is_zero() {
            HARD_EVICTION_GRACE
        } else {
            self.config.max_pod_grace
        };
        let evicted = pods.into_iter().find(|(pod, usage)| {
            let message = messages::eviction(pod, usage.as_ref(), resource, met, reading);
            self.evict(pod, message, grace, true)
        });
        evicted.map(|(pod, _)| pod)
    }

    /// Marks the pod for eviction unless it is critical, and reports whether it did.
    fn evict(&self, pod: &Arc<Pod>, message: String, grace: Duration, by_node: bool) -> bool {
        if messages::is_critical(pod) {
            return false;
        }
        tracing::info!(pod = pod.metadata.name, message, "pod evicted");
        self.events
            .pod(pod, EventType::Warning, messages::EVICTED, message.clone());
        let disrupted = by_node.then(|| message.clone());
        let why = Waiting::new(messages::EVICTED, message);
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        self.pod_cache.mark_for_termination(
            uid,
            Termination {
                why,
                grace: Some(grace),
                disrupted,
            },
        );
        // If the channel is full, the pod is synced a little later anyway.
        let _ = self.triggers.try_send(Trigger::of(pod));
        true
    }
}

/// Returns which disk usage counts for a signal.
fn disk_scope(signal: Signal, image_disk: bool) -> DiskScope {
    match signal {
        _ if !image_disk => DiskScope::All,
        Signal::ImageFsAvailable | Signal::ImageFsInodesFree => DiskScope::ImageFs,
        _ => DiskScope::NodeFs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_of_a_signal() {
        assert_eq!(disk_scope(Signal::ImageFsAvailable, false), DiskScope::All);
        assert_eq!(
            disk_scope(Signal::ImageFsAvailable, true),
            DiskScope::ImageFs
        );
        assert_eq!(
            disk_scope(Signal::NodeFsInodesFree, true),
            DiskScope::NodeFs
        );
    }
}
