//! One look at a pod: observe, plan, act, again until there is nothing more to do at once, then report.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::controller::Action;

use super::{
    Context, Error, Identity, act,
    admission::{self, Decision},
    cache::{self, Blocked, PodState},
    claims, clear, fetch, record_event,
    report::{self, Situation},
    requeue, terminate, tokens,
};
use crate::edged::{
    downward::Downward,
    moment,
    observed::Observed,
    plan::{self, Desired, Plan},
    references,
    status::Waiting,
    volumes, with_causes,
};

/// Rounds of one look. A pod needs three and one more for each init container; the rest is for the next look.
const MAX_ROUNDS: usize = 16;

/// Why volumes are not made yet.
const GOING: &str = "what this pod had when it was here before is being removed";

/// Brings the pod closer to what is wanted, and says when to look again.
pub(super) async fn reconcile(pod: Arc<Pod>, context: Arc<Context>) -> Result<Action, Error> {
    let identity = Identity::of(&pod)?;
    let begun = Instant::now();
    context.pod_cache.take_in_hand(identity.uid, true);
    context.pod_cache.with(identity.uid, |state| *state.seen.get_or_insert(begun));
    let (operation, action) = if pod.metadata.deletion_timestamp.is_some() {
        ("kill", terminate::terminate(&context, &pod, &identity).await)
    } else {
        ("sync", sync_pod(&context, &pod, &identity).await)
    };
    context.pod_cache.take_in_hand(identity.uid, false);
    context.metrics.pod_worked(operation, begun.elapsed());
    let action = action?;
    context.pod_cache.with(identity.uid, |state| state.failures = 0);
    Ok(action)
}

async fn sync_pod(context: &Arc<Context>, pod: &Arc<Pod>, identity: &Identity<'_>) -> Result<Action, Error> {
    let mut desired = Desired::of(pod, Timestamp::now());
    desired.over |= context.pod_cache.is_marked_for_termination(identity.uid);
    let mut observed = context.observe_first(pod, identity).await?;
    if !desired.is_finished(&observed) {
        match admission::decide(context, pod, &observed).await {
            Some(Decision::Admitted) => {}
            Some(Decision::Rejected(why)) => {
                report::rejected(context, pod, identity, &why).await?;
                return Ok(Action::await_change());
            }
            None => return Ok(Action::requeue(admission::AGAIN)),
        }
    }
    let mut next;
    if desired.is_finished(&observed) {
        next = None;
    } else {
        next = refresh_volumes(context, pod, identity, &observed).await;
    }
    for _ in 0..MAX_ROUNDS {
        let plan = plan::plan(&desired, &observed, Timestamp::now());
        context.probes.follow(pod, &observed, &context.pod_ip(pod, &observed));
        record_event::back_off(context, pod, &observed, &plan);
        next = moment::earlier(next, plan.wake);
        let done = {
            let mut acting = Box::pin(act::all(context, pod, identity, &observed, &plan));
            tokio::select! {
                biased;
                // cancel-safe: what is not done goes on below
                done = &mut acting => done?,
                // cancel-safe: waiting holds no data
                () = context.sandbox_limit.wait_until_reportable() => {
                    // Side by side: a call that is under way is neither held up nor given up for a report.
                    let reporting = report_status(context, pod, identity, &observed, &plan);
                    let (reported, done) = tokio::join!(reporting, acting);
                    reported?;
                    done?
                }
            }
        };
        if !done.is_progress() {
            report_status(context, pod, identity, &observed, &plan).await?;
            if desired.over && observed.containers.iter().all(|container| !container.is_alive()) {
                clear::volumes(context, identity).await;
            }
            let next = moment::earlier(next, observed.settles_at(Timestamp::now()));
            return Ok(requeue(context, moment::earlier(next, done.retry_at)));
        }
        observed = match done.only_made() {
            Some(made) => context.observe_made(pod, observed, made).await?,
            None => context.observe(pod).await?,
        };
    }
    Ok(Action::requeue(Duration::ZERO))
}

async fn report_status(
    context: &Context,
    pod: &Pod,
    identity: &Identity<'_>,
    observed: &Observed,
    plan: &Plan,
) -> Result<(), Error> {
    report::report(context, pod, identity, &Situation { observed, back_off: &plan.back_off, ended: false })
        .await
}

/// Makes the volumes what they should be, if it is time to. A failure holds up a pod that has not started; one that runs
/// keeps the files that it has. Says when the volumes are due again.
async fn refresh_volumes(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    identity: &Identity<'_>,
    observed: &Observed,
) -> Option<Timestamp> {
    let now = Timestamp::now();
    let told = told_of_itself(pod);
    let (fresh_until, retry_at, changes) = context.pod_cache.with(identity.uid, |state| {
        if state.volumes_of.replace(told) != Some(told) {
            state.volumes_until = None;
        }
        (state.volumes_until, state.held_up.as_ref().map(|held_up| held_up.retry_at), state.changes)
    });
    let longest = context.resync.max(cache::MAX_WAIT);
    if let Some(at) = fresh_until.or(retry_at).filter(|at| !moment::is_over(*at, now, longest)) {
        return Some(at);
    }
    let pod_volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let wanted: BTreeSet<_> = pod_volumes.flat_map(references::of_volume).collect();
    let objects =
        fetch::objects((&context.client, context.api_ca.as_deref()), identity.namespace, wanted).await;
    let (tokens, tokens_due) = tokens::of_pod(context, pod, identity, now).await;
    let claims = claims::of_pod(context, pod, identity).await;
    let (task_context, task_pod) = (context.clone(), pod.clone());
    let (ips, host_ips) = (context.pod_ips(pod, observed), context.addresses.ips());
    let logs = context.dirs.pod_logs(identity.namespace, identity.name, identity.uid);
    let place = context.dirs.pod(identity.uid);
    let done = tokio::task::spawn_blocking(move || {
        if task_context.removing.is_clearing(&[&place, &logs]) {
            return Err(GOING.to_owned());
        }
        let downward = Downward {
            pod: &task_pod,
            host_ips: &host_ips,
            pod_ips: &ips,
            allocatable: task_context.allocatable,
        };
        volumes::set_up(&task_context.dirs, &downward, &objects, &tokens, &claims)
            .map_err(|error| with_causes(&error))
    });
    let done = done.await.unwrap_or_else(|error| Err(error.to_string()));
    if let Err(message) = &done {
        record_event::mount_failed(context, pod, message);
    }
    context.pod_cache.with(identity.uid, |state| {
        let due = note(state, done, tokens_due, context, now);
        if state.changes != changes {
            // What was read may be what was there before the change, whose own trigger comes after this look.
            state.reconsider();
        }
        due
    })
}

/// What files of the downward API can tell and people change while the pod runs, as a hash.
fn told_of_itself(pod: &Pod) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&pod.metadata.labels, &pod.metadata.annotations).hash(&mut hasher);
    hasher.finish()
}

fn note(
    state: &mut PodState,
    done: Result<(), String>,
    tokens_due: Option<Timestamp>,
    context: &Context,
    now: Timestamp,
) -> Option<Timestamp> {
    match done {
        Ok(()) => {
            state.held_up = None;
            let again = moment::after(now, context.resync);
            // A token that could not be replaced in time is tried for at the pace of everything else.
            let due = tokens_due.filter(|at| *at > now).map_or(again, |at| at.min(again));
            state.volumes_until = Some(due);
        }
        Err(message) => {
            tracing::debug!(message, "volumes are not up to date");
            state.volumes_until = None;
            let waiting = Waiting::new("ContainerCreating", message);
            state.held_up = Some(Blocked::after(state.held_up.as_ref(), waiting, now));
        }
    }
    state.volumes_until.or(state.held_up.as_ref().map(|held_up| held_up.retry_at))
}
