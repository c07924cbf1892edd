//! Records events of pods, in the kubelet's words. See also [`super::stop`], [`super::start`], [`super::images`].

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::context::Context;
use crate::{
    events::{EventType, Recorder, reason},
    observed::ObservedPod,
    plan::{self, Plan},
    specs::is_terminal,
    status::Waiting,
};

/// Records that a sandbox has ended and is replaced.
pub(super) fn sandbox_changed(events: &Recorder, pod: &Pod) {
    let text = "Pod sandbox changed, it will be killed and re-created.".to_owned();
    events.pod(pod, EventType::Normal, reason::SANDBOX_CHANGED, text);
}

/// Records that a sandbox could not be created.
pub(super) fn sandbox_failed(events: &Recorder, pod: &Pod, message: &str) {
    events.pod(
        pod,
        EventType::Warning,
        reason::FAILED_CREATE_POD_SANDBOX,
        message.to_owned(),
    );
}

/// Records that volumes could not be set up.
pub(super) fn mount_failed(events: &Recorder, pod: &Pod, message: &str) {
    events.pod(
        pod,
        EventType::Warning,
        reason::FAILED_MOUNT,
        message.to_owned(),
    );
}

/// Records that containers are in restart back-off, once for each of their exits.
pub(super) fn back_off(context: &Context, pod: &Pod, observed: &ObservedPod, plan: &Plan) {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    for name in plan.back_off.keys() {
        let Some(last) = observed.latest(name) else {
            continue;
        };
        let reported = context.pod_cache.with(uid, |state| {
            state
                .reported_back_off
                .insert(name.clone(), last.id.clone())
        });
        if reported.as_ref() == Some(&last.id) {
            continue;
        }
        let text = format!(
            "Back-off restarting failed container {name} in pod {}",
            full_name(pod)
        );
        context
            .events
            .container(pod, name, EventType::Warning, reason::BACK_OFF, text);
    }
}

/// Returns the reason of failure of a pod whose active deadline has passed, and records it once.
pub(super) fn deadline(context: &Context, pod: &Pod, now: Timestamp) -> Option<Waiting> {
    plan::deadline(pod).filter(|at| *at <= now)?;
    let text = "Pod was active on the node longer than the specified deadline";
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let reported = context.pod_cache.with(uid, |state| {
        std::mem::replace(&mut state.reported_deadline, true)
    });
    if !reported && !is_terminal(pod) {
        context
            .events
            .pod(pod, EventType::Normal, "DeadlineExceeded", text.to_owned());
    }
    Some(Waiting::new("DeadlineExceeded", text))
}

/// Returns the pod's name in the kubelet's form: `name_namespace(uid)`.
pub(super) fn full_name(pod: &Pod) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let meta = &pod.metadata;
    format!(
        "{}_{}({})",
        text(&meta.name),
        text(&meta.namespace),
        text(&meta.uid)
    )
}
