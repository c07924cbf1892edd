//! Computes the conditions that the kubelet owns; others are kept.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};

use super::{PodStatusInputs, containers::ContainerStatuses, phase};
use crate::{resize::ResizeStatus, specs, timestamps};

/// The conditions that the kubelet owns, in its order.
const KUBELET_CONDITIONS: [&str; 5] = [
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
];

/// The condition of a resize that waits.
const RESIZE_PENDING: &str = "PodResizePending";
/// The condition of a resize that is being made.
const RESIZE_IN_PROGRESS: &str = "PodResizeInProgress";

/// The value of a condition: true with a reason, or false with reason and message.
struct ConditionValue(Result<&'static str, (&'static str, String)>);

impl ConditionValue {
    const TRUE: Self = Self(Ok(""));

    fn not(reason: &'static str, message: String) -> Self {
        Self(Err((reason, message)))
    }
}

/// Returns all conditions. The transition time changes only with the value.
pub(super) fn all(
    inputs: &PodStatusInputs<'_>,
    old: &PodStatus,
    phase: &str,
    statuses: &ContainerStatuses,
) -> Vec<PodCondition> {
    let mut all = old.conditions.clone().unwrap_or_default();
    for kind in KUBELET_CONDITIONS {
        let value = match kind {
            "PodReadyToStartContainers" => has_sandbox(inputs),
            "Initialized" => initialised_condition(inputs, phase, statuses),
            "Ready" => ready(inputs, old, phase, statuses),
            "ContainersReady" => containers_ready(inputs, phase, statuses),
            _ => ConditionValue::TRUE,
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
            last_transition_time: since.or_else(|| Some(timestamps::to_api(inputs.now))),
            last_probe_time: None,
            observed_generation: inputs.pod.metadata.generation,
        };
        match last {
            Some(last) => *last = condition,
            None => all.push(condition),
        }
    }
    set_resize_conditions(&mut all, inputs);
    if let Some(message) = inputs.disrupted {
        add_disruption_target(&mut all, message, inputs);
    }
    all
}

/// Sets the condition of a resize, and removes that of one that has ended.
fn set_resize_conditions(all: &mut Vec<PodCondition>, inputs: &PodStatusInputs<'_>) {
    let current = match inputs.resize {
        None => None,
        Some(ResizeStatus::Pending { reason, message }) => Some((
            RESIZE_PENDING,
            Some((*reason).to_owned()),
            Some(message.clone()),
        )),
        Some(ResizeStatus::InProgress { error }) => {
            let reason = error.as_ref().map(|_| "Error".to_owned());
            Some((RESIZE_IN_PROGRESS, reason, error.clone()))
        }
    };
    for kind in [RESIZE_PENDING, RESIZE_IN_PROGRESS] {
        let last = all.iter().position(|condition| condition.type_ == kind);
        let last = last.map(|index| all.remove(index));
        if let Some((_, reason, message)) =
            current.as_ref().filter(|(current, ..)| *current == kind)
        {
            let since = last.and_then(|last| last.last_transition_time);
            all.push(PodCondition {
                type_: kind.to_owned(),
                status: "True".to_owned(),
                reason: reason.clone(),
                message: message.clone(),
                last_transition_time: since.or_else(|| Some(timestamps::to_api(inputs.now))),
                observed_generation: inputs.pod.metadata.generation,
                ..PodCondition::default()
            });
        }
    }
}

/// Adds the condition that shows controllers that the pod did not fail by itself.
///
/// Source: <https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions>.
fn add_disruption_target(all: &mut Vec<PodCondition>, message: &str, inputs: &PodStatusInputs<'_>) {
    let kind = "DisruptionTarget";
    if all
        .iter()
        .any(|condition| condition.type_ == kind && condition.status == "True")
    {
        return;
    }
    all.retain(|condition| condition.type_ != kind);
    all.push(PodCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: Some("TerminationByKubelet".to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(timestamps::to_api(inputs.now)),
        observed_generation: inputs.pod.metadata.generation,
        ..PodCondition::default()
    });
}

fn has_sandbox(inputs: &PodStatusInputs<'_>) -> ConditionValue {
    match (inputs.observed.ready_sandbox(), inputs.pod_ips()) {
        (Some(_), [_, ..]) => ConditionValue::TRUE,
        _ => ConditionValue::not("", String::new()),
    }
}

fn initialised_condition(
    inputs: &PodStatusInputs<'_>,
    phase: &str,
    statuses: &ContainerStatuses,
) -> ConditionValue {
    if phase == "Succeeded" {
        return ConditionValue(Ok("PodCompleted"));
    }
    let rest = phase::uninitialised_names(inputs, statuses);
    if rest.is_empty() {
        return ConditionValue::TRUE;
    }
    ConditionValue::not(
        "ContainersNotInitialized",
        format!("containers with incomplete status: [{}]", rest.join(" ")),
    )
}

/// Checks sidecars and main containers; init containers have ended when this matters.
fn containers_ready(
    inputs: &PodStatusInputs<'_>,
    phase: &str,
    statuses: &ContainerStatuses,
) -> ConditionValue {
    match phase {
        "Succeeded" => return ConditionValue::not("PodCompleted", String::new()),
        "Failed" => return ConditionValue::not("PodFailed", String::new()),
        _ => {}
    }
    let inits = inputs
        .pod
        .spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars = inits.zip(statuses.inits.iter().flatten());
    let sidecars = sidecars
        .filter(|(spec, _)| specs::is_sidecar(spec))
        .map(|(_, status)| status);
    let unready = sidecars
        .chain(&statuses.mains)
        .filter(|status| !status.ready);
    let unready: Vec<&str> = unready.map(|status| status.name.as_str()).collect();
    if unready.is_empty() {
        return ConditionValue::TRUE;
    }
    ConditionValue::not(
        "ContainersNotReady",
        format!("containers with unready status: [{}]", unready.join(" ")),
    )
}

fn ready(
    inputs: &PodStatusInputs<'_>,
    old: &PodStatus,
    phase: &str,
    statuses: &ContainerStatuses,
) -> ConditionValue {
    let containers = containers_ready(inputs, phase, statuses);
    if containers.0.is_err() {
        return containers;
    }
    let gates = inputs
        .pod
        .spec
        .iter()
        .flat_map(|spec| spec.readiness_gates.iter().flatten());
    let unmet: Vec<String> = gates
        .filter_map(|gate| {
            let kind = &gate.condition_type;
            let condition = old
                .conditions
                .iter()
                .flatten()
                .find(|condition| condition.type_ == *kind);
            match condition.map(|condition| condition.status.as_str()) {
                Some("True") => None,
                Some(other) => Some(format!(
                    "the status of pod readiness gate \"{kind}\" is not \"True\", but {other}"
                )),
                None => Some(format!(
                    "corresponding condition of pod readiness gate \"{kind}\" does not exist."
                )),
            }
        })
        .collect();
    if unmet.is_empty() {
        ConditionValue::TRUE
    } else {
        ConditionValue::not("ReadinessGatesNotReady", unmet.join(", "))
    }
}
