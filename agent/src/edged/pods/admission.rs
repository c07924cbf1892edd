//! Lets pods in: each new one is decided about once, in the order in which they were made, so that two that come at the same
//! time do not both get the last room. What has been let in stays, also over a restart of the agent.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client, runtime::reflector::Store};
use tokio::sync::{Mutex, mpsc};

use super::{
    cache::{Decision, PodCache, Termination},
    trigger::Trigger,
};
use crate::edged::{
    admit::{self, NodeInfo, Verdict},
    events::{Recorder, Severity, reason},
    observed::Observed,
    pressure::{EVICTED, Pressure},
    specs::is_over,
    status::Waiting,
};

/// A pod that waits for others to end is decided about again after this.
pub(super) const PREEMPTION_RETRY_DELAY: Duration = Duration::from_millis(500);
/// What events and the pod's status say of a pod that makes room.
const PREEMPTED: &str = "Preempted in order to admit critical pod";
/// What its condition says.
const PREEMPTED_CONDITION: &str = "Pod was preempted by Kubelet to accommodate a critical pod.";

/// What decisions depend on, and where they are recorded.
pub(crate) struct AdmitterDeps {
    /// The API, which has the node.
    pub(crate) client: Client,
    /// The node's name.
    pub(crate) node_name: String,
    /// This node's pods.
    pub(crate) pods: Store<Pod>,
    /// Remembers decisions.
    pub(crate) pod_cache: PodCache,
    /// What the node is short of.
    pub(crate) pressure: Pressure,
    /// Records rejections and preemptions.
    pub(crate) events: Recorder,
    /// Triggers pods that have to make room.
    pub(crate) triggers: mpsc::Sender<Trigger>,
}

/// Decides which pods may run on the node.
pub(crate) struct Admitter {
    deps: AdmitterDeps,
    /// The node as it registers itself, and what pods may use.
    node: NodeInfo,
    /// One decision at a time: each depends on those before.
    deciding: Mutex<()>,
}

impl Admitter {
    /// An admitter that has decided about no pod.
    pub(crate) fn new(deps: AdmitterDeps, node: NodeInfo) -> Self {
        Self { deps, node, deciding: Mutex::new(()) }
    }

    /// Decides about a pod that is to run; `None` while others have to end first.
    pub(super) async fn decide(&self, pod: &Pod, observed: &Observed) -> Option<Decision> {
        let uid = uid(pod);
        if let Some(decision) = self.decision(uid) {
            return Some(decision);
        }
        if was_admitted(pod) || !observed.sandboxes.is_empty() || !observed.containers.is_empty() {
            self.remember(uid, Decision::Admitted);
            return Some(Decision::Admitted);
        }
        let _deciding = self.deciding.lock().await;
        if self.decision(uid).is_none() {
            self.decide_all(&self.deps.pods.state(), &self.node().await);
        }
        self.decision(uid)
    }

    /// The node as the API has it now. Resources that others made known there are there for pods too.
    async fn node(&self) -> NodeInfo {
        let found = Api::<Node>::all(self.deps.client.clone()).get_opt(&self.deps.node_name).await;
        let Ok(Some(node)) = found else { return self.node.clone() };
        let mut info = NodeInfo { node, ..self.node.clone() };
        let stored = info.node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        for (name, amount) in stored.map(admit::amounts).unwrap_or_default() {
            info.allocatable.entry(name).or_insert(amount);
        }
        info
    }

    /// Decides about all pods that are new.
    fn decide_all(&self, pods: &[Arc<Pod>], node: &NodeInfo) {
        let living = || pods.iter().map(Arc::as_ref).filter(|pod| !is_over(pod));
        let is_admitted =
            |pod: &Pod| was_admitted(pod) || self.decision(uid(pod)) == Some(Decision::Admitted);
        let mut admitted: Vec<&Pod> = living().filter(|pod| is_admitted(pod)).collect();
        let is_new = |pod: &&Pod| {
            !was_admitted(pod)
                && pod.metadata.deletion_timestamp.is_none()
                && self.decision(uid(pod)).is_none()
        };
        let mut new: Vec<&Pod> = living().filter(is_new).collect();
        new.sort_by_key(|pod| {
            (pod.metadata.creation_timestamp.as_ref().map(|at| at.0), pod.metadata.name.clone())
        });
        for pod in new {
            let refused =
                self.deps.pressure.refuses(pod).map(|why| Verdict::Rejected(Waiting::new(EVICTED, why)));
            match refused.unwrap_or_else(|| admit::admit(pod, &admitted, node)) {
                Verdict::Admitted => {
                    self.remember(uid(pod), Decision::Admitted);
                    admitted.push(pod);
                }
                Verdict::Rejected(why) => {
                    let (reason, text) = (why.reason.clone(), why.message.clone());
                    self.deps.events.pod(pod, Severity::Warning, reason, text);
                    self.remember(uid(pod), Decision::Rejected(why));
                }
                Verdict::Preempts(victims) => {
                    admitted
                        .iter()
                        .filter(|one| victims.iter().any(|victim| victim == uid(one)))
                        .for_each(|one| self.preempt(one));
                }
            }
        }
    }

    /// Ends the pod, so that it fails for this reason.
    fn preempt(&self, pod: &Pod) {
        let why = Waiting::new(reason::PREEMPTING, PREEMPTED);
        let termination = Termination { why, grace: None, disrupted: Some(PREEMPTED_CONDITION.to_owned()) };
        if self.deps.pod_cache.mark_for_termination(uid(pod), termination) {
            self.deps.events.pod(pod, Severity::Warning, reason::PREEMPTING, PREEMPTED.to_owned());
        }
        // Where the channel is full, another trigger of this pod, or its next sync, finds the mark.
        let _ = self.deps.triggers.try_send(Trigger::of(pod));
    }

    fn decision(&self, uid: &str) -> Option<Decision> {
        self.deps.pod_cache.with(uid, |state| state.decision.clone())
    }

    fn remember(&self, uid: &str, decision: Decision) {
        self.deps.pod_cache.with(uid, |state| state.decision = Some(decision));
    }
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// Whether this node has begun with it: only what was let in has a time of start.
fn was_admitted(pod: &Pod) -> bool {
    pod.status.as_ref().is_some_and(|status| status.start_time.is_some())
}
