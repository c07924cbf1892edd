//! Carries out the actions of a plan.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;

use super::{
    cache::PostStart, context::Context, error::Error, identity::Identity, progress::Progress,
    sandbox, start, stop,
};
use crate::{
    housekeeping,
    observed::ObservedPod,
    plan::{Action, Plan},
    runtime::CallError,
    timestamps,
};

/// Delay before a failed removal is tried again.
const REMOVAL_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Carries out all actions of the plan. A container that cannot start does not prevent others from starting.
pub(super) async fn execute(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    identity: &Identity<'_>,
    observed: &ObservedPod,
    plan: &Plan,
) -> Result<Progress, Error> {
    let mut progress = Progress::default();
    let runtime = &context.runtime;
    for action in &plan.actions {
        let one = match action {
            Action::StopContainer { id, why } => {
                stop::stop_container(context, pod, observed, id, *why);
                Progress::default()
            }
            Action::RemoveContainer { id } => removal_result(
                housekeeping::remove_container(runtime, &context.dirs, id).await,
                pod,
                id,
            ),
            Action::StopSandbox { id } => {
                runtime.stop_sandbox(id).await?;
                Progress::changed()
            }
            Action::RemoveSandbox { id } => {
                removal_result(runtime.remove_sandbox(id).await, pod, id)
            }
            Action::CreateSandbox { attempt } => {
                sandbox::create(context, pod, identity, *attempt).await
            }
            // While a postStart hook runs, nothing after its container is started.
            Action::Start { .. } if has_running_post_start(context, identity) => {
                Progress::default()
            }
            Action::Start {
                name,
                attempt,
                restart_step,
            } => {
                let request = start::StartRequest {
                    name,
                    attempt: *attempt,
                    restart_step: *restart_step,
                };
                start::container(context, pod, identity, observed, request).await
            }
        };
        progress = progress.merge(one);
    }
    Ok(progress)
}

/// Returns the result of a removal. A failed one is tried again and prevents nothing else.
fn removal_result(done: Result<(), CallError>, pod: &Pod, id: &str) -> Progress {
    let Err(error) = done else {
        return Progress::changed();
    };
    let (pod, error) = (&pod.metadata.name, &error as &dyn std::error::Error);
    tracing::warn!(
        pod,
        id,
        error,
        "failed to remove a container or sandbox; retrying"
    );
    Progress::retry_at(timestamps::after(clock::now(), REMOVAL_RETRY_DELAY))
}

fn has_running_post_start(context: &Context, identity: &Identity<'_>) -> bool {
    context.pod_cache.with(identity.uid, |state| {
        state
            .post_start_hooks
            .values()
            .any(|hook| *hook == PostStart::Running)
    })
}
