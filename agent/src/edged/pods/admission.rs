//! Lets pods in: each new one is decided about once, in the order in which they were made, so that two that come at the same
//! time do not both get the last room. What has been let in stays, also over a restart of the agent.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, runtime::reflector::ObjectRef};
use tokio::sync::Mutex;

use super::{Context, Termination, Trigger};
use crate::edged::{
    admit::{self, NodeInfo, Verdict},
    events::{Severity, reason},
    observed::Observed,
    pressure::EVICTED,
    specs::is_over,
    status::Waiting,
};

/// A pod that waits for others to end is decided about again after this.
pub(super) const AGAIN: Duration = Duration::from_millis(500);
/// What events and the pod's status say.
const PREEMPTED: &str = "Preempted in order to admit critical pod";
/// What its condition says.
const MADE_ROOM: &str = "Pod was preempted by Kubelet to accommodate a critical pod.";

/// The door of the node.
pub(crate) struct Admitter {
    /// The node as it registers itself, and what pods may use.
    place: NodeInfo,
    /// One decision at a time: each depends on those before.
    deciding: Mutex<()>,
}

/// What was decided about a pod, for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It runs.
    Admitted,
    /// It never runs.
    Rejected(Waiting),
}

impl Admitter {
    /// A node with nobody in it.
    pub(crate) fn new(place: NodeInfo) -> Self {
        Self { place, deciding: Mutex::new(()) }
    }

    /// The node as the API has it now. Resources that others made known there are there for pods too.
    async fn place(&self, context: &Context) -> NodeInfo {
        let found = Api::<Node>::all(context.client.clone()).get_opt(&context.node_name).await;
        let Ok(Some(node)) = found else { return self.place.clone() };
        let mut place = NodeInfo { node, ..self.place.clone() };
        let stored = place.node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        for (name, amount) in stored.map(admit::amounts).unwrap_or_default() {
            place.allocatable.entry(name).or_insert(amount);
        }
        place
    }
}

/// Decides about a pod that is to run; `None` while others have to end first.
pub(super) async fn decide(context: &Context, pod: &Pod, observed: &Observed) -> Option<Decision> {
    let uid = uid(pod);
    if let Some(known) = known(context, uid) {
        return Some(known);
    }
    if was_admitted(pod) || !observed.sandboxes.is_empty() || !observed.containers.is_empty() {
        remember(context, uid, Decision::Admitted);
        return Some(Decision::Admitted);
    }
    let _deciding = context.admitter.deciding.lock().await;
    if known(context, uid).is_none() {
        let place = context.admitter.place(context).await;
        decide_all(context, &context.pods.state(), &place);
    }
    known(context, uid)
}

/// Decides about all pods that are new.
fn decide_all(context: &Context, pods: &[Arc<Pod>], place: &NodeInfo) {
    let living = || pods.iter().map(Arc::as_ref).filter(|pod| !is_over(pod));
    let is_in = |pod: &Pod| was_admitted(pod) || known(context, uid(pod)) == Some(Decision::Admitted);
    let mut inside: Vec<&Pod> = living().filter(|pod| is_in(pod)).collect();
    let is_new = |pod: &&Pod| {
        !was_admitted(pod) && pod.metadata.deletion_timestamp.is_none() && known(context, uid(pod)).is_none()
    };
    let mut new: Vec<&Pod> = living().filter(is_new).collect();
    new.sort_by_key(|pod| {
        (pod.metadata.creation_timestamp.as_ref().map(|at| at.0), pod.metadata.name.clone())
    });
    for pod in new {
        let refused = context.pressure.refuses(pod).map(|why| Verdict::Rejected(Waiting::new(EVICTED, why)));
        match refused.unwrap_or_else(|| admit::admit(pod, &inside, place)) {
            Verdict::Admitted => {
                remember(context, uid(pod), Decision::Admitted);
                inside.push(pod);
            }
            Verdict::Rejected(why) => {
                let (reason, text) = (why.reason.clone(), why.message.clone());
                context.events.pod(pod, Severity::Warning, reason, text);
                remember(context, uid(pod), Decision::Rejected(why));
            }
            Verdict::Preempts(victims) => {
                inside
                    .iter()
                    .filter(|one| victims.iter().any(|v| v == uid(one)))
                    .for_each(|one| preempt(context, one));
            }
        }
    }
}

/// Ends the pod, so that it fails for this reason.
fn preempt(context: &Context, pod: &Pod) {
    let why = Waiting::new(reason::PREEMPTING, PREEMPTED);
    let termination = Termination { why, grace: None, disrupted: Some(MADE_ROOM.to_owned()) };
    if context.pod_cache.mark_for_termination(uid(pod), termination) {
        context.events.pod(pod, Severity::Warning, reason::PREEMPTING, PREEMPTED.to_owned());
    }
    // Full: another trigger of this pod, or the next look, finds it.
    let _ = context.triggers.try_send(Trigger::Pod(ObjectRef::from_obj(pod)));
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// Whether this node has begun with it: only what was let in has a time of start.
fn was_admitted(pod: &Pod) -> bool {
    pod.status.as_ref().is_some_and(|status| status.start_time.is_some())
}

fn known(context: &Context, uid: &str) -> Option<Decision> {
    context.pod_cache.with(uid, |state| state.decision.clone())
}

fn remember(context: &Context, uid: &str, decision: Decision) {
    context.pod_cache.with(uid, |state| state.decision = Some(decision));
}
