//! Plans the pods of a job to create and delete, and its status. Pure.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::{Job, JobSpec, JobStatus},
    core::v1::Pod,
};
use kube::ResourceExt;

use super::{
    backoff,
    outcome::{self, JobOutcome},
    pod::{NewPod, index},
    tally::{self, MAX_UNCOUNTED, is_terminating, is_tracked},
    view::{PodOutcome, View},
};
use crate::controllers::workloads::{
    conditions::{Condition, seconds},
    pods::{is_active, is_ready, phase},
    replica_set::count,
};

/// The most pods that one reconciliation creates or deletes; the rest follows in the next.
const BURST: usize = 500;

/// The plan, in the order of its steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// Pods to delete and count.
    pub(super) delete: Vec<Arc<Pod>>,
    /// Pods whose finalizer is removed and that are deleted without being counted.
    pub(super) discard: Vec<Arc<Pod>>,
    /// Pods to create.
    pub(super) create: Vec<NewPod>,
    /// The status to write, after [`observe`] has added the pods' final state.
    pub(super) status: JobStatus,
    /// Pods whose finalizer is removed once the status with their uids is written.
    pub(super) untrack: Vec<Arc<Pod>>,
    /// When to reconcile again without an event.
    pub(super) look_again: Option<Duration>,
}

impl Plan {
    fn due_in(&mut self, wait: Option<Duration>) {
        self.look_again = self.look_again.into_iter().chain(wait).min();
    }
}

/// Plans for the job's `pods`.
pub(super) fn plan(job: &Job, pods: &[Arc<Pod>], now: Timestamp) -> Plan {
    let Some(spec) = &job.spec else {
        return Plan::default();
    };
    let mut plan = Plan {
        status: tally::tally_pods(job, pods),
        ..Plan::default()
    };
    let told = JobOutcome::from_status(&plan.status);
    if told.is_none() {
        begin(spec, &mut plan.status, now);
    }
    let view = View::of(spec, &plan.status, pods);
    let outcome = told.or_else(|| JobOutcome::new(&view, &plan.status, now));
    match &outcome {
        Some(outcome) if outcome.is_success => {
            plan.discard = own_pods(view.active.iter().take(BURST))
        }
        Some(_) => plan.delete = own_pods(view.active.iter().take(BURST)),
        None => {
            plan.look_again = outcome::deadline(spec, &plan.status, now);
            manage(&view, &mut plan, now);
        }
    }
    let outcome = outcome.or_else(|| JobOutcome::completed().filter(|_| is_complete(&view)));
    count_ended(&view, outcome.as_ref(), &mut plan);
    if let Some(outcome) = outcome {
        let conditions = plan.status.conditions.get_or_insert_default();
        Condition {
            type_: outcome.target(),
            holds: true,
            reason: &outcome.reason,
            message: outcome.message,
        }
        .set_job(conditions, now);
    }
    plan
}

fn own_pods<'a>(pods: impl Iterator<Item = &'a &'a Arc<Pod>>) -> Vec<Arc<Pod>> {
    pods.map(|pod| Arc::clone(pod)).collect()
}

/// Sets the start time and the condition `Suspended`.
fn begin(spec: &JobSpec, status: &mut JobStatus, now: Timestamp) {
    let suspended = spec.suspend == Some(true);
    if suspended {
        status.start_time = None;
    } else if status.start_time.is_none() {
        status.start_time = Some(seconds(now));
    }
    let conditions = status.conditions.get_or_insert_default();
    let (holds, reason, message) = if suspended {
        (true, "JobSuspended", "Job suspended")
    } else if conditions
        .iter()
        .any(|condition| condition.type_ == "Suspended")
    {
        (false, "JobResumed", "Job resumed")
    } else {
        return;
    };
    Condition {
        type_: "Suspended",
        holds,
        reason,
        message: message.into(),
    }
    .set_job(conditions, now);
}

fn is_complete(view: &View<'_>) -> bool {
    let is_enough = match view.spec.completions {
        Some(completions) => view.succeeded >= completions,
        // without a number of completions, the first success ends creation
        None => view.succeeded > 0,
    };
    is_enough && view.active.is_empty()
}

/// Plans missing pods to create, or surplus ones to delete; never both.
fn manage(view: &View<'_>, plan: &mut Plan, now: Timestamp) {
    let active = view.active.len();
    if view.spec.suspend == Some(true) {
        plan.discard = own_pods(view.active.iter().take(BURST));
        return;
    }
    let wanted = desired_pods(view);
    plan.discard = surplus(view, active.saturating_sub(wanted));
    if !plan.discard.is_empty() {
        return;
    }
    // if the policy says so, a terminating pod is replaced only when it is gone
    let terminating = view
        .pods
        .iter()
        .filter(|pod| view.replaces_only_failed() && is_terminating(pod))
        .count();
    let missing = wanted
        .saturating_sub(active.saturating_add(terminating))
        .min(BURST);
    if missing == 0 {
        return;
    }
    if view.spec.backoff_limit_per_index.is_some() {
        create_independent(view, missing, plan, now);
        return;
    }
    let has_failed =
        |pod: &Pod| phase(pod) == "Failed" && pod.metadata.deletion_timestamp.is_none();
    if let Some(wait) = backoff::of_job(view.pods, has_failed, now) {
        plan.due_in(Some(wait));
        return;
    }
    plan.create = if view.is_indexed() {
        let new = |index| NewPod {
            index: Some(index),
            failures: None,
        };
        pending(view, missing).into_iter().map(new).collect()
    } else {
        vec![NewPod::default(); missing]
    };
}

/// Returns how many pods should run.
fn desired_pods(view: &View<'_>) -> usize {
    let parallelism = view.spec.parallelism.unwrap_or(1);
    let wanted = match view.spec.completions {
        Some(completions) => parallelism.min(completions.saturating_sub(view.succeeded)),
        // the running pods may succeed too
        None if view.succeeded > 0 => return view.active.len(),
        None => parallelism,
    };
    usize::try_from(wanted).unwrap_or_default()
}

/// Returns the surplus pods: those without a valid index, those with a duplicate index, and then as many as are too many.
fn surplus(view: &View<'_>, too_many: usize) -> Vec<Arc<Pod>> {
    let (mut gone, mut kept) = (Vec::new(), Vec::new());
    let mut taken = BTreeSet::new();
    // from the most valuable one
    for pod in view.active.iter().rev() {
        let is_wrong =
            view.is_indexed() && view.index(pod).is_none_or(|index| !taken.insert(index));
        if is_wrong { &mut gone } else { &mut kept }.push(Arc::clone(pod));
    }
    let more = too_many.saturating_sub(gone.len());
    gone.extend(kept.into_iter().rev().take(more));
    gone.truncate(BURST);
    gone
}

/// Returns the lowest indexes without a pod.
fn pending(view: &View<'_>, missing: usize) -> Vec<i32> {
    let keeps_place =
        |pod: &&Arc<Pod>| is_active(pod) || view.replaces_only_failed() && is_terminating(pod);
    let taken: BTreeSet<_> = view
        .pods
        .iter()
        .filter(keeps_place)
        .filter_map(|pod| index(pod))
        .collect();
    let done = |index| {
        view.succeeded_indexes
            .end_of_range(index)
            .or(view.failed_indexes.end_of_range(index))
    };
    let (mut free, mut index) = (Vec::new(), 0);
    while free.len() < missing && index < view.spec.completions.unwrap_or_default() {
        // ranges are skipped as a whole, since their length is unbounded
        let last = done(index).unwrap_or_else(|| {
            if !taken.contains(&index) {
                free.push(index);
            }
            index
        });
        index = last.saturating_add(1);
    }
    free
}

/// Plans pods of an indexed job with `backoffLimitPerIndex`.
fn create_independent(view: &View<'_>, missing: usize, plan: &mut Plan, now: Timestamp) {
    let kept = view.failures_kept_for_count();
    for index in pending(view, missing) {
        let mut failures = (0, 0);
        if let Some(pod) = kept.get(&index) {
            failures = view.failures_with(pod);
            let all = usize::try_from(failures.0.saturating_add(failures.1)).unwrap_or_default();
            if let Some(wait) = backoff::remaining_delay(all, backoff::ended_at(pod), now) {
                plan.due_in(Some(wait));
                continue;
            }
        }
        plan.create.push(NewPod {
            index: Some(index),
            failures: Some(failures),
        });
    }
}

/// Adds pods that ended to the status, and releases those that are there or need no counting.
fn count_ended(view: &View<'_>, outcome: Option<&JobOutcome>, plan: &mut Plan) {
    let fails = outcome.is_some_and(|outcome| !outcome.is_success);
    let rest = if fails {
        PodOutcome::Failed
    } else {
        PodOutcome::Uncounted
    };
    let mut ended = view.ended.clone();
    if outcome.is_some() {
        // all remaining pods end with the job
        let is_new = |pod: &&Arc<Pod>| {
            is_tracked(pod) && !ended.iter().any(|(known, _)| known.uid() == pod.uid())
        };
        let (succeeded, failed) = tally::uncounted_uids(&plan.status);
        let is_noted = |pod: &&Arc<Pod>| {
            pod.uid()
                .is_some_and(|uid| succeeded.contains(&uid) || failed.contains(&uid))
        };
        let left: Vec<_> = view
            .pods
            .iter()
            .filter(is_new)
            .filter(|pod| !is_noted(pod))
            .collect();
        // pods that are only now deleted are released when they end
        let left = left.into_iter().filter(|pod| fails || !is_active(pod));
        ended.extend(left.map(|pod| (pod, rest)));
    }
    let kept = if outcome.is_none() {
        view.failures_kept_for_count()
    } else {
        Default::default()
    };
    let kept: BTreeSet<_> = kept.values().filter_map(|pod| pod.uid()).collect();
    let room = MAX_UNCOUNTED.saturating_sub(kept.len());
    let mut free: Vec<Arc<Pod>> = Vec::new();
    let (succeeded, failed) = tally::uncounted_uids(&plan.status);
    let is_uncounted = |pod: &&Arc<Pod>| {
        pod.uid()
            .is_some_and(|uid| succeeded.contains(&uid) || failed.contains(&uid))
    };
    free.extend(
        view.pods
            .iter()
            .filter(is_uncounted)
            .filter(|pod| is_tracked(pod))
            .cloned(),
    );
    for (pod, end) in ended.into_iter().take(room.saturating_sub(free.len())) {
        match end {
            PodOutcome::Succeeded if view.is_indexed() => {}
            PodOutcome::Uncounted => {}
            PodOutcome::Succeeded | PodOutcome::Failed => {
                tally::add_uncounted(&mut plan.status, pod, end == PodOutcome::Succeeded)
            }
        }
        free.push(Arc::clone(pod));
    }
    free.retain(|pod| pod.uid().is_none_or(|uid| !kept.contains(&uid)));
    plan.untrack = free;
    if view.is_indexed() {
        plan.status.completed_indexes = view.succeeded_indexes.text();
        plan.status.succeeded = Some(view.succeeded).filter(|count| *count > 0);
        plan.status.failed_indexes = view.failed_indexes.text();
    }
}

/// Adds to the status what follows from the pods after the plan was carried out. The final condition is set when everything is counted
/// and no pod is left.
pub(super) fn observe(status: &mut JobStatus, pods: &[Arc<Pod>], is_counted: bool, now: Timestamp) {
    let count =
        |wanted: &dyn Fn(&Pod) -> bool| count(pods.iter().filter(|pod| wanted(pod)).count());
    let active = count(&is_active);
    let terminating = count(&is_terminating);
    status.active = (active > 0).then_some(active);
    status.ready = Some(count(&|pod| is_active(pod) && is_ready(pod)));
    status.terminating = Some(terminating);
    let Some(outcome) = JobOutcome::from_status(status) else {
        return;
    };
    if !is_counted || !tally::has_no_uncounted(status) || active > 0 || terminating > 0 {
        return;
    }
    if outcome.is_success {
        status.completion_time = Some(seconds(now));
    }
    let conditions = status.conditions.get_or_insert_default();
    Condition {
        type_: outcome.condition(),
        holds: true,
        reason: &outcome.reason,
        message: outcome.message,
    }
    .set_job(conditions, now);
}
