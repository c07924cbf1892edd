//! Admits pods. Each new pod is decided about once, in the order of creation, so that two pods that come at the same time do not
//! both get the last free resources. An admitted pod stays admitted, also over a restart of the agent.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client, runtime::reflector::Store};
use tokio::sync::{Mutex, mpsc};
use tracing::warn;

use super::cache::{Decision, PodCache, Termination};
use crate::{
    admit::{self, AdmitResult, NodeInfo},
    annotations,
    device_manager::{AllocateError, DeviceManager},
    events::{EventType, Recorder, reason},
    hold,
    observed::ObservedPod,
    pressure::{EVICTED, Pressure},
    shutdown_status::{self, ShutdownStatus},
    specs::is_terminal,
    status::Waiting,
    trigger::Trigger,
};

/// Delay before a pod that waits for preempted pods is decided about again.
pub(super) const PREEMPTION_RETRY_DELAY: Duration = Duration::from_millis(500);
/// Message in events and status of a preempted pod.
const PREEMPTED_MESSAGE: &str = "Preempted in order to admit critical pod";
/// Message of its condition `DisruptionTarget`.
const PREEMPTED_CONDITION: &str = "Pod was preempted by Kubelet to accommodate a critical pod.";

/// What the admitter needs.
pub(crate) struct AdmitterDeps {
    /// The API, from which the node is read.
    pub(crate) client: Client,
    /// The node's name.
    pub(crate) node_name: String,
    /// This node's pods.
    pub(crate) pods: Store<Pod>,
    /// Remembers decisions.
    pub(crate) pod_cache: PodCache,
    /// The node's resource pressure.
    pub(crate) pressure: Pressure,
    /// Allocates devices of plugins.
    pub(crate) devices: DeviceManager,
    /// Whether the node is shutting down.
    pub(crate) shutdown: ShutdownStatus,
    /// Records rejections and preemptions.
    pub(crate) events: Recorder,
    /// Triggers pods that are preempted.
    pub(crate) triggers: mpsc::Sender<Trigger>,
}

/// Decides which pods may run on the node.
pub(crate) struct Admitter {
    deps: AdmitterDeps,
    /// The node as it registers itself, used until the API has it.
    node: NodeInfo,
    /// Held while deciding, as each decision depends on those before.
    lock: Mutex<()>,
}

impl Admitter {
    /// Returns an admitter that has decided about no pod.
    pub(crate) fn new(deps: AdmitterDeps, node: NodeInfo) -> Self {
        Self {
            deps,
            node,
            lock: Mutex::new(()),
        }
    }

    /// Decides about a pod that shall run. Returns `None` while others have to end first.
    pub(super) async fn decide(&self, pod: &Pod, observed: &ObservedPod) -> Option<Decision> {
        let uid = uid(pod);
        if let Some(decision) = self.decision(uid) {
            return Some(decision);
        }
        if was_admitted(pod) || !observed.sandboxes.is_empty() || !observed.containers.is_empty() {
            self.store_decision(uid, Decision::Admitted);
            return Some(Decision::Admitted);
        }
        self.allocate_devices(pod).await?;
        let _guard = self.lock.lock().await;
        if self.decision(uid).is_none() {
            self.decide_all(&self.deps.pods.state(), &self.node().await);
        }
        self.decision(uid)
    }

    /// Returns reason and message of the condition `PodResizePending` if a running pod cannot have its new resources.
    pub(super) async fn refusal_of_resize(
        &self,
        before: &Pod,
        wanted: &Pod,
    ) -> Option<(&'static str, String)> {
        let node = self.node().await;
        let pods = self.deps.pods.state();
        let others = pods.iter().map(Arc::as_ref).filter(|pod| {
            uid(pod) != uid(wanted)
                && !is_terminal(pod)
                && (was_admitted(pod) || self.decision(uid(pod)) == Some(Decision::Admitted))
        });
        let others: Vec<_> = others.collect();
        admit::refusal_of_resize(before, wanted, &others, &node.allocatable)
    }

    /// Allocates the devices that the pod requests from plugins, as the kubelet does before its other checks. A pod that gets none is
    /// rejected. Returns `None` if the plugin has not registered yet: after a reboot it starts together with the pods.
    ///
    /// Other pods are decided about meanwhile, because a plugin may take long to answer.
    async fn allocate_devices(&self, pod: &Pod) -> Option<()> {
        if self.deps.pressure.refusal(pod).is_some() {
            return Some(());
        }
        match self.deps.devices.allocate(pod).await {
            Ok(()) => Some(()),
            Err(error @ AllocateError::Awaited(_)) => {
                let reported = self.deps.pod_cache.with(uid(pod), |state| {
                    std::mem::replace(&mut state.reported_device_wait, true)
                });
                if !reported {
                    let reason = reason::WAITING_FOR_DEVICE_PLUGIN;
                    let events = &self.deps.events;
                    events.pod(pod, EventType::Warning, reason, error.to_string());
                }
                None
            }
            Err(error) => {
                let why = format!("Allocate failed due to {error}, which is unexpected");
                self.reject(pod, Waiting::new("UnexpectedAdmissionError", why));
                Some(())
            }
        }
    }

    /// Returns the node as the API has it now. Resources that others have added to its status are available to pods too.
    async fn node(&self) -> NodeInfo {
        let found = Api::<Node>::all(self.deps.client.clone())
            .get_opt(&self.deps.node_name)
            .await;
        let Ok(Some(node)) = found else {
            return self.node.clone();
        };
        let mut info = NodeInfo {
            node,
            ..self.node.clone()
        };
        let stored = info
            .node
            .status
            .as_ref()
            .and_then(|status| status.allocatable.as_ref());
        for (name, amount) in stored.map(admit::amounts).unwrap_or_default() {
            info.allocatable.entry(name).or_insert(amount);
        }
        // pods with devices of plugins have them already
        let counts = self.deps.devices.counts();
        for name in counts.capacity.into_keys() {
            info.allocatable.insert(name, i64::MAX);
        }
        info
    }

    /// Decides about all pods that are new.
    fn decide_all(&self, pods: &[Arc<Pod>], node: &NodeInfo) {
        let living = || pods.iter().map(Arc::as_ref).filter(|pod| !is_terminal(pod));
        let is_admitted =
            |pod: &Pod| was_admitted(pod) || self.decision(uid(pod)) == Some(Decision::Admitted);
        let mut admitted: Vec<&Pod> = living().filter(|pod| is_admitted(pod)).collect();
        let is_new = |pod: &&Pod| {
            !was_admitted(pod)
                && !hold::is_held(pod)
                && pod.metadata.deletion_timestamp.is_none()
                && self.decision(uid(pod)).is_none()
        };
        let mut new: Vec<&Pod> = living().filter(is_new).collect();
        new.sort_by_key(|pod| {
            (
                pod.metadata.creation_timestamp.as_ref().map(|at| at.0),
                pod.metadata.name.clone(),
            )
        });
        for pod in new {
            let refused = self
                .deps
                .pressure
                .refusal(pod)
                .map(|why| AdmitResult::Rejected(Waiting::new(EVICTED, why)));
            if refused.is_none() && self.deps.devices.is_short_of(pod) {
                // its own sync allocates its devices first
                continue;
            }
            match refused.unwrap_or_else(|| admit::admit(pod, &admitted, node)) {
                AdmitResult::Admitted if self.deps.shutdown.is_shutting_down() => {
                    let message = shutdown_status::NOT_ADMITTED_MESSAGE;
                    self.reject(
                        pod,
                        Waiting::new(shutdown_status::NOT_ADMITTED_REASON, message),
                    );
                }
                AdmitResult::Admitted => {
                    self.store_decision(uid(pod), Decision::Admitted);
                    self.warn_without_effect(pod);
                    admitted.push(pod);
                }
                AdmitResult::Rejected(why) => self.reject(pod, why),
                AdmitResult::Preempts(victims) => {
                    admitted
                        .iter()
                        .filter(|one| victims.iter().any(|victim| victim == uid(one)))
                        .for_each(|one| self.preempt(one));
                }
            }
        }
    }

    /// Stores that the pod never runs, and records an event.
    fn reject(&self, pod: &Pod, why: Waiting) {
        let (reason, text) = (why.reason.clone(), why.message.clone());
        self.deps.events.pod(pod, EventType::Warning, reason, text);
        self.store_decision(uid(pod), Decision::Rejected(why));
    }

    /// Warns of annotations that have no effect, in the log and in events: once for each pod, when it is admitted.
    fn warn_without_effect(&self, pod: &Pod) {
        for message in annotations::without_effect(pod) {
            let (name, namespace) = (
                pod.metadata.name.as_deref(),
                pod.metadata.namespace.as_deref(),
            );
            warn!(
                pod = name,
                namespace,
                reason = message,
                "annotation ignored"
            );
            self.deps.events.pod(
                pod,
                EventType::Warning,
                reason::UNSUPPORTED_ANNOTATION,
                message,
            );
        }
    }

    /// Marks the pod for termination, so that it fails as preempted.
    fn preempt(&self, pod: &Pod) {
        let why = Waiting::new(reason::PREEMPTING, PREEMPTED_MESSAGE);
        let termination = Termination {
            why,
            grace: None,
            disrupted: Some(PREEMPTED_CONDITION.to_owned()),
        };
        if self
            .deps
            .pod_cache
            .mark_for_termination(uid(pod), termination)
        {
            self.deps.events.pod(
                pod,
                EventType::Warning,
                reason::PREEMPTING,
                PREEMPTED_MESSAGE.to_owned(),
            );
        }
        // If the channel is full, another trigger of this pod or its next sync finds the mark.
        let _ = self.deps.triggers.try_send(Trigger::of(pod));
    }

    fn decision(&self, uid: &str) -> Option<Decision> {
        self.deps
            .pod_cache
            .with(uid, |state| state.decision.clone())
    }

    fn store_decision(&self, uid: &str, decision: Decision) {
        self.deps
            .pod_cache
            .with(uid, |state| state.decision = Some(decision));
    }
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// Reports whether the pod was admitted before: only then has its status a start time.
fn was_admitted(pod: &Pod) -> bool {
    pod.status
        .as_ref()
        .is_some_and(|status| status.start_time.is_some())
}
