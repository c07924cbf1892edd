//! Carries out the steps of a plan.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::{
    cache::PostStart, context::Context, error::Error, identity::Identity, progress::Progress, sandbox, start,
    stop,
};
use crate::edged::{
    housekeeping, moment,
    observed::Observed,
    plan::{Action, Plan},
    runtime::CallError,
};

/// What could not be removed is tried again after this.
const REMOVAL_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Takes all steps of the plan. One container that cannot start does not keep others from it.
pub(super) async fn all(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    identity: &Identity<'_>,
    observed: &Observed,
    plan: &Plan,
) -> Result<Progress, Error> {
    let mut progress = Progress::default();
    let runtime = &context.runtime;
    for action in &plan.actions {
        let one = match action {
            Action::StopContainer { id, why } => {
                stop::container(context, pod, observed, id, *why);
                Progress::default()
            }
            Action::RemoveContainer { id } => {
                removed(housekeeping::remove_container(runtime, &context.dirs, id).await, pod, id)
            }
            Action::StopSandbox { id } => {
                runtime.stop_sandbox(id).await?;
                Progress::changed()
            }
            Action::RemoveSandbox { id } => removed(runtime.remove_sandbox(id).await, pod, id),
            Action::CreateSandbox { attempt } => sandbox::create(context, pod, identity, *attempt).await,
            // A postStart hook that runs goes before whatever is started after its container.
            Action::Start { .. } if runs_post_start(context, identity) => Progress::default(),
            Action::Start { name, attempt, step } => {
                let wanted = start::Wanted { name, attempt: *attempt, step: *step };
                start::container(context, pod, identity, observed, wanted).await
            }
        };
        progress = progress.and(one);
    }
    Ok(progress)
}

/// What cannot be removed is tried again, and holds up nothing that can be done without.
fn removed(done: Result<(), CallError>, pod: &Pod, id: &str) -> Progress {
    let Err(error) = done else { return Progress::changed() };
    let (pod, error) = (&pod.metadata.name, &error as &dyn std::error::Error);
    tracing::warn!(pod, id, error, "it is not removed");
    Progress::retry_at(moment::after(Timestamp::now(), REMOVAL_RETRY_DELAY))
}

fn runs_post_start(context: &Context, identity: &Identity<'_>) -> bool {
    context.pod_cache.with(identity.uid, |state| state.hooks.values().any(|hook| *hook == PostStart::Running))
}
