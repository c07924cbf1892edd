//! The conditions that the kubelet owns; others are left as they are.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};

use super::{View, containers::Statuses, phase};
use crate::edged::{moment, specs};

/// The kubelet's conditions, in its order.
const OWN: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// A condition's value: true, or false with reason and message.
struct Value(Result<&'static str, (&'static str, String)>);

impl Value {
    const TRUE: Self = Self(Ok(""));

    fn no(reason: &'static str, message: String) -> Self {
        Self(Err((reason, message)))
    }
}

/// All conditions; the time of transition changes only when the value does.
pub(super) fn all(view: &View<'_>, old: &PodStatus, phase: &str, statuses: &Statuses) -> Vec<PodCondition> {
    let mut all = old.conditions.clone().unwrap_or_default();
    for kind in OWN {
        let value = match kind {
            "PodReadyToStartContainers" => has_sandbox(view),
            "Initialized" => initialised(view, phase, statuses),
            "Ready" => ready(view, old, phase, statuses),
            "ContainersReady" => containers_ready(view, phase, statuses),
            _ => Value::TRUE,
        };
        let (status, reason, message) = match value.0 {
            Ok(reason) => ("True", reason, String::new()),
            Err((reason, message)) => ("False", reason, message),
        };
        let last = all.iter_mut().find(|condition| condition.type_ == kind);
        let same = last.as_ref().filter(|last| last.status == status);
        let since = same.and_then(|last| last.last_transition_time.clone());
        let condition = PodCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: (!reason.is_empty()).then(|| reason.to_owned()),
            message: (!message.is_empty()).then_some(message),
            last_transition_time: since.or_else(|| Some(moment::to_api(view.now))),
            last_probe_time: None,
            observed_generation: view.pod.metadata.generation,
        };
        match last {
            Some(last) => *last = condition,
            None => all.push(condition),
        }
    }
    if let Some(message) = view.disrupted {
        disrupted(&mut all, message, view);
    }
    all
}

/// The condition by which controllers know that the pod did not fail by itself.
///
/// Source: <https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions>.
fn disrupted(all: &mut Vec<PodCondition>, message: &str, view: &View<'_>) {
    let kind = "DisruptionTarget";
    if all.iter().any(|condition| condition.type_ == kind && condition.status == "True") {
        return;
    }
    all.retain(|condition| condition.type_ != kind);
    all.push(PodCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: Some("TerminationByKubelet".to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(moment::to_api(view.now)),
        observed_generation: view.pod.metadata.generation,
        ..PodCondition::default()
    });
}

fn has_sandbox(view: &View<'_>) -> Value {
    match (view.observed.current(), view.pod_ips()) {
        (Some(_), [_, ..]) => Value::TRUE,
        _ => Value::no("", String::new()),
    }
}

fn initialised(view: &View<'_>, phase: &str, statuses: &Statuses) -> Value {
    if phase == "Succeeded" {
        return Value(Ok("PodCompleted"));
    }
    let rest = phase::uninitialised(view, statuses);
    if rest.is_empty() {
        return Value::TRUE;
    }
    Value::no("ContainersNotInitialized", format!("containers with incomplete status: [{}]", rest.join(" ")))
}

/// Sidecars and main containers: init containers have ended when it matters.
fn containers_ready(view: &View<'_>, phase: &str, statuses: &Statuses) -> Value {
    match phase {
        "Succeeded" => return Value::no("PodCompleted", String::new()),
        "Failed" => return Value::no("PodFailed", String::new()),
        _ => {}
    }
    let inits = view.pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars = inits.zip(statuses.inits.iter().flatten());
    let sidecars = sidecars.filter(|(spec, _)| specs::is_sidecar(spec)).map(|(_, status)| status);
    let unready = sidecars.chain(&statuses.mains).filter(|status| !status.ready);
    let unready: Vec<&str> = unready.map(|status| status.name.as_str()).collect();
    if unready.is_empty() {
        return Value::TRUE;
    }
    Value::no("ContainersNotReady", format!("containers with unready status: [{}]", unready.join(" ")))
}

fn ready(view: &View<'_>, old: &PodStatus, phase: &str, statuses: &Statuses) -> Value {
    let containers = containers_ready(view, phase, statuses);
    if containers.0.is_err() {
        return containers;
    }
    let gates = view.pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten());
    let closed: Vec<String> = gates
        .filter_map(|gate| {
            let kind = &gate.condition_type;
            let condition = old.conditions.iter().flatten().find(|condition| condition.type_ == *kind);
            match condition.map(|condition| condition.status.as_str()) {
                Some("True") => None,
                Some(other) => {
                    Some(format!("the status of pod readiness gate \"{kind}\" is not \"True\", but {other}"))
                }
                None => {
                    Some(format!("corresponding condition of pod readiness gate \"{kind}\" does not exist."))
                }
            }
        })
        .collect();
    if closed.is_empty() { Value::TRUE } else { Value::no("ReadinessGatesNotReady", closed.join(", ")) }
}
