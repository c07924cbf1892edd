//! Carries out the steps of a plan.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use wire::cri;

use super::{Context, Error, Identity, cache::Blocked, hooks::PostStart, record_event, refuse, start, stop};
use crate::edged::{
    moment,
    observed::{Made, Observed},
    plan::{Action, Plan},
    runtime::CallError,
    status::Waiting,
};

/// What could not be removed is tried again after this.
const AGAIN: Duration = Duration::from_secs(1);

/// What came of the steps.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// What the pod has got.
    made: Vec<Made>,
    /// What it had has changed.
    changed: bool,
    /// When something that failed may be tried again.
    pub(super) retry_at: Option<Timestamp>,
}

impl Done {
    fn changed() -> Self {
        Self { changed: true, ..Self::default() }
    }

    pub(super) fn made(one: Made) -> Self {
        Self { made: vec![one], ..Self::default() }
    }

    pub(super) fn again_at(at: Timestamp) -> Self {
        Self { retry_at: Some(at), ..Self::default() }
    }

    /// The runtime has something else than before, so that another plan may have more steps.
    pub(super) fn is_progress(&self) -> bool {
        self.changed || !self.made.is_empty()
    }

    /// What was made, if that is all that has happened: what failed may have left something, too.
    pub(super) fn only_made(self) -> Option<Vec<Made>> {
        (!self.changed && self.retry_at.is_none()).then_some(self.made)
    }

    fn and(mut self, other: Self) -> Self {
        self.made.extend(other.made);
        Self {
            changed: self.changed || other.changed,
            retry_at: moment::earlier(self.retry_at, other.retry_at),
            ..self
        }
    }
}

/// Takes all steps of the plan. One container that cannot start does not keep others from it.
pub(super) async fn all(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    identity: &Identity<'_>,
    observed: &Observed,
    plan: &Plan,
) -> Result<Done, Error> {
    let mut done = Done::default();
    let runtime = &context.runtime;
    for action in &plan.actions {
        let one = match action {
            Action::StopContainer { id, why } => {
                stop::container(context, pod, observed, id, *why);
                Done::default()
            }
            Action::RemoveContainer { id } => removed(context.remove_container(id).await, pod, id),
            Action::StopSandbox { id } => {
                runtime.stop_sandbox(id).await?;
                Done::changed()
            }
            Action::RemoveSandbox { id } => removed(runtime.remove_sandbox(id).await, pod, id),
            Action::CreateSandbox { attempt } => create_sandbox(context, pod, identity, *attempt).await,
            // Its postStart hook goes before whatever is started after a container.
            Action::Start { .. } if is_starting(context, identity) => Done::default(),
            Action::Start { name, attempt, step } => {
                let what = start::What { name, attempt: *attempt, step: *step };
                start::container(context, pod, identity, observed, what).await
            }
        };
        done = done.and(one);
    }
    Ok(done)
}

/// What cannot be removed is tried again, and holds up nothing that can be done without.
fn removed(done: Result<(), CallError>, pod: &Pod, id: &str) -> Done {
    let Err(error) = done else { return Done::changed() };
    let (pod, error) = (&pod.metadata.name, &error as &dyn std::error::Error);
    tracing::warn!(pod, id, error, "it is not removed");
    Done::again_at(moment::after(Timestamp::now(), AGAIN))
}

fn is_starting(context: &Context, identity: &Identity<'_>) -> bool {
    context.pod_cache.with(identity.uid, |state| state.hooks.values().any(|hook| *hook == PostStart::Running))
}

/// When the pod may be worked on, if not now: its volumes are not there, or its sandbox could not be made lately.
pub(super) fn held_up_until(context: &Context, identity: &Identity<'_>, now: Timestamp) -> Option<Timestamp> {
    context.pod_cache.with(identity.uid, |state| {
        let held_up = state.held_up.as_ref();
        let held_up = held_up.filter(|one| !one.is_over(now) || state.volumes_until.is_none());
        held_up.map(|held_up| held_up.retry_at)
    })
}

/// Makes a sandbox, and says its id or why there is none.
async fn run_sandbox(context: &Context, pod: &Pod, config: cri::PodSandboxConfig) -> Result<String, String> {
    if let Some(why) = refuse::sandbox(context, pod).await {
        return Err(why);
    }
    let made = tokio::fs::create_dir_all(&config.log_directory).await;
    made.map_err(|error| format!("{}: {error}", config.log_directory))?;
    let handler = pod.spec.as_ref().and_then(|spec| spec.runtime_class_name.clone()).unwrap_or_default();
    let made = context.sandbox_limit.run(context.runtime.run_sandbox(config, handler)).await;
    context.moved.notify_one();
    made.map_err(|error| error.to_string())
}

async fn create_sandbox(context: &Context, pod: &Pod, identity: &Identity<'_>, attempt: u32) -> Done {
    let now = Timestamp::now();
    if let Some(at) = held_up_until(context, identity, now) {
        return Done::again_at(at);
    }
    if attempt > 0 {
        record_event::sandbox_changed(context, pod);
    }
    let config = context.sandbox_config(pod, attempt).await;
    let made = run_sandbox(context, pod, config).await;
    context.pod_cache.with(identity.uid, |state| match made {
        Ok(id) => {
            state.held_up = None;
            // Whoever made the group anew knows no limits.
            state.limited = false;
            Done::made(Made::Sandbox { id, attempt })
        }
        Err(error) => {
            let message = format!("Failed to create pod sandbox: {error}");
            record_event::sandbox_failed(context, pod, &message);
            // once, not at each try
            if state.held_up.as_ref().is_none_or(|before| before.waiting.message != message) {
                tracing::warn!(namespace = pod.metadata.namespace, pod = pod.metadata.name, "{message}");
            }
            let waiting = Waiting::new("ContainerCreating", message);
            let blocked = Blocked::after(state.held_up.as_ref(), waiting, now);
            let at = blocked.retry_at;
            state.held_up = Some(blocked);
            Done::again_at(at)
        }
    })
}
