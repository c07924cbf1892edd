//! Reports a pod's status to the API when it differs from the last one.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{context::Context, error::Error, identity::Identity, record_event};
use crate::{
    hold,
    observed::ObservedPod,
    specs,
    status::{self, PodStatusInputs, Waiting},
    timestamps,
};

/// What a status is made from, in addition to the pod's cached state.
pub(super) struct StatusInputs<'a> {
    /// The observed pod.
    pub(super) observed: &'a ObservedPod,
    /// Containers in restart back-off.
    pub(super) back_off: &'a BTreeMap<String, Duration>,
    /// Whether the pod is being deleted and all its containers have ended.
    pub(super) ended: bool,
}

/// Computes and stores the pod's status. A pod that is gone is no error.
pub(super) async fn report(
    context: &Context,
    pod: &Pod,
    identity: &Identity<'_>,
    inputs: &StatusInputs<'_>,
) -> Result<(), Error> {
    let version = pod.metadata.resource_version.clone().unwrap_or_default();
    let (resources, resize) = context.pod_cache.with(identity.uid, |state| {
        (state.resources.clone(), state.resize.clone())
    });
    let (mut waiting, held_up, last, termination) = context.pod_cache.with(identity.uid, |state| {
        let blocked = state
            .blocked
            .iter()
            .map(|(name, blocked)| (name.clone(), blocked.waiting.clone()));
        // The pod in the store may be older than the last stored status.
        let last = state
            .last_report
            .as_ref()
            .filter(|(base, _)| *base == version)
            .map(|(_, status)| status.clone());
        let held_up = state
            .held_up
            .as_ref()
            .map(|held_up| held_up.waiting.clone());
        (
            blocked.collect::<BTreeMap<_, _>>(),
            held_up,
            last,
            state.termination.clone(),
        )
    });
    for (name, delay) in inputs.back_off {
        let Identity {
            namespace,
            name: pod,
            uid,
        } = identity;
        let delay = go_duration(*delay);
        let message = format!(
            "back-off {delay} restarting failed container={name} pod={pod}_{namespace}({uid})"
        );
        waiting.insert(name.clone(), Waiting::new("CrashLoopBackOff", message));
    }
    let known;
    let pod = match last {
        Some(last) => {
            known = Pod {
                status: Some(last),
                ..pod.clone()
            };
            &known
        }
        None => pod,
    };
    let (failed, disrupted) = termination
        .map(|termination| (termination.why, termination.disrupted))
        .unzip();
    let failed = failed.or_else(|| record_event::deadline(context, pod, clock::now()));
    let host_ips = context.node.addresses.ips();
    let status = status::of(&PodStatusInputs {
        pod,
        observed: inputs.observed,
        waiting: &waiting,
        held_up: held_up.as_ref(),
        resources: &resources,
        resize: resize.as_ref(),
        host_ips: &host_ips,
        runtime_name: context.runtime.name().await?,
        ended: inputs.ended,
        failed: failed.as_ref(),
        disrupted: disrupted.flatten().as_deref(),
        now: clock::now(),
    });
    patch_status(context, pod, identity, status).await
}

/// Reports that a pod was rejected; its containers have no status.
pub(super) async fn report_rejection(
    context: &Context,
    pod: &Pod,
    identity: &Identity<'_>,
    why: &Waiting,
) -> Result<(), Error> {
    let old = pod.status.clone().unwrap_or_default();
    let status = PodStatus {
        phase: Some("Failed".into()),
        observed_generation: pod.metadata.generation,
        reason: Some(why.reason.clone()),
        message: Some(format!("Pod was rejected: {}", why.message)),
        qos_class: old
            .qos_class
            .clone()
            .or_else(|| Some(specs::qos(pod).to_owned())),
        start_time: old
            .start_time
            .clone()
            .or_else(|| Some(timestamps::to_api(clock::now()))),
        ..old
    };
    patch_status(context, pod, identity, status).await
}

/// Reports that a pod waits for its release. It has not begun, so its status has no start time.
pub(super) async fn report_held(
    context: &Context,
    pod: &Pod,
    identity: &Identity<'_>,
) -> Result<(), Error> {
    let old = pod.status.clone().unwrap_or_default();
    let status = PodStatus {
        phase: Some("Pending".into()),
        conditions: Some(hold::conditions(pod, true, clock::now())),
        ..old
    };
    patch_status(context, pod, identity, status).await
}

async fn patch_status(
    context: &Context,
    pod: &Pod,
    identity: &Identity<'_>,
    status: PodStatus,
) -> Result<(), Error> {
    let version = pod.metadata.resource_version.clone().unwrap_or_default();
    let old = pod.status.clone().unwrap_or_default();
    let Some(difference) = status::difference(&old, &status)? else {
        return Ok(());
    };
    let patch = Patch::Merge(json!({"metadata": {"uid": identity.uid}, "status": difference}));
    let api = Api::<Pod>::namespaced(context.client.clone(), identity.namespace);
    match api
        .patch_status(identity.name, &PatchParams::default(), &patch)
        .await
    {
        Ok(_) => {
            let runs = |status: &PodStatus| status.phase.as_deref() == Some("Running");
            let started = runs(&status) && !runs(&old);
            let first_seen = context.pod_cache.with(identity.uid, |state| {
                state.last_report = Some((version, status));
                state.first_seen
            });
            if let Some(first_seen) = first_seen.filter(|_| started) {
                context.metrics.pod_started(first_seen.elapsed());
            }
            Ok(())
        }
        Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(()),
        Err(error) => Err(Error::Report(error)),
    }
}

/// Formats a duration as Go does: `10s`, `1m20s`, `5m0s`.
fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        format!("{seconds}s")
    } else {
        format!("{}m{}s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_look_like_the_kubelets() {
        let texts = [10, 80, 300].map(|seconds| go_duration(Duration::from_secs(seconds)));
        assert_eq!(texts, ["10s", "1m20s", "5m0s"]);
    }
}
