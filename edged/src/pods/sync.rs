//! One sync of a pod: observe, plan and act until nothing more can be done at once, then report.

use std::{sync::Arc, time::Duration};

use clock::Instant;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::controller::Action;

use super::{
    act, admission,
    cache::Decision,
    context::Context,
    error::Error,
    identity::Identity,
    progress::Progress,
    record_event,
    report::{self, StatusInputs},
    resize, terminate, volume_manager,
};
use crate::{
    hold,
    observed::ObservedPod,
    plan::{self, DesiredPod, Plan},
    timestamps,
};

/// Maximum number of rounds of one sync. A pod needs three, and one more for each init container; the rest is left to the next
/// sync.
const MAX_ROUNDS: usize = 16;

/// Syncs the pod and returns when to sync it again.
pub(super) async fn reconcile(pod: Arc<Pod>, context: Arc<Context>) -> Result<Action, Error> {
    let identity = Identity::of(&pod)?;
    let begun = Instant::now();
    context.pod_cache.set_syncing(identity.uid, true);
    context
        .pod_cache
        .with(identity.uid, |state| *state.first_seen.get_or_insert(begun));
    let (operation, action) = if pod.metadata.deletion_timestamp.is_some() {
        (
            "kill",
            terminate::terminate(&context, &pod, &identity).await,
        )
    } else {
        ("sync", sync_pod(&context, &pod, &identity).await)
    };
    context.pod_cache.set_syncing(identity.uid, false);
    context.metrics.pod_synced(operation, begun.elapsed());
    let action = action?;
    context
        .pod_cache
        .with(identity.uid, |state| state.failures = 0);
    Ok(action)
}

/// Brings a pod that is not being deleted to its desired state. Two syncs of one pod never run at the same time.
async fn sync_pod(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    identity: &Identity<'_>,
) -> Result<Action, Error> {
    let mut desired = DesiredPod::of(pod, clock::now());
    desired.is_over |= context.pod_cache.is_marked_for_termination(identity.uid);
    let mut observed = context.observe_first(pod, identity).await?;
    let mut next = None;
    let mut current = Arc::clone(pod);
    if !desired.is_finished(&observed) {
        if hold::is_held(pod) && observed.sandboxes.is_empty() {
            report::report_held(context, pod, identity).await?;
            return Ok(Action::await_change());
        }
        match context.admitter.decide(pod, &observed).await {
            Some(Decision::Admitted) => {}
            Some(Decision::Rejected(why)) => {
                context.devices.free(identity.uid).await;
                report::report_rejection(context, pod, identity, &why).await?;
                return Ok(Action::await_change());
            }
            None => return Ok(Action::requeue(admission::PREEMPTION_RETRY_DELAY)),
        }
        next = volume_manager::refresh(context, pod, identity, &observed).await;
        let resized = resize::sync(context, pod, identity, &observed).await;
        next = timestamps::earlier(next, resized.retry_at);
        current = resized.pod;
    }
    let pod = &current;
    for _ in 0..MAX_ROUNDS {
        let plan = plan::plan(&desired, &observed, clock::now());
        next = timestamps::earlier(next, plan.replan_at);
        context
            .probes
            .sync(pod, &observed, &context.pod_ip(pod, &observed));
        record_event::back_off(context, pod, &observed, &plan);
        let progress = act_and_report(context, pod, identity, &observed, &plan).await?;
        if !progress.has_changes() {
            report_status(context, pod, identity, &observed, &plan).await?;
            if desired.is_over
                && observed
                    .containers
                    .iter()
                    .all(|container| !container.is_alive())
            {
                volume_manager::remove(context, identity).await;
            }
            let next = timestamps::earlier(next, observed.recheck_at(clock::now()));
            return Ok(context.requeue(timestamps::earlier(next, progress.retry_at)));
        }
        observed = match progress.into_created_only() {
            Some(created) => context.observe_created(pod, observed, created).await?,
            None => context.observe(pod).await?,
        };
    }
    Ok(Action::requeue(Duration::ZERO))
}

/// Carries out the plan, and reports the status meanwhile if that takes long.
async fn act_and_report(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    identity: &Identity<'_>,
    observed: &ObservedPod,
    plan: &Plan,
) -> Result<Progress, Error> {
    let mut acting = Box::pin(act::execute(context, pod, identity, observed, plan));
    clock::select! {
        biased;
        // cancel-safe: the future goes on below.
        progress = &mut acting => progress,
        // cancel-safe: waiting holds no data.
        () = context.sandbox_limit.wait_until_reportable() => {
            // Concurrently: a report neither delays nor cancels a running call.
            let reporting = report_status(context, pod, identity, observed, plan);
            let (reported, progress) = tokio::join!(reporting, acting);
            reported?;
            progress
        }
    }
}

async fn report_status(
    context: &Context,
    pod: &Pod,
    identity: &Identity<'_>,
    observed: &ObservedPod,
    plan: &Plan,
) -> Result<(), Error> {
    let inputs = StatusInputs {
        observed,
        back_off: &plan.back_off,
        ended: false,
    };
    report::report(context, pod, identity, &inputs).await
}
