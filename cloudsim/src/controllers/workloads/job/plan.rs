//! Which pods of a job come or go next, and what its status says of it. Pure.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::{Job, JobSpec, JobStatus},
    core::v1::Pod,
};
use kube::ResourceExt;

use super::{
    backoff,
    ending::{self, Ending},
    pod::{NewPod, index},
    tally::{self, MAX_UNCOUNTED, is_terminating, is_tracked},
    view::{End, View},
};
use crate::controllers::workloads::{
    conditions::{Condition, seconds},
    pods::{is_active, is_ready, phase},
    replica_set::count,
};

/// The most pods that one pass makes or deletes; the rest follows in the next.
const BURST: usize = 500;

/// What to do, in this order.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// Pods to delete; they count.
    pub(super) delete: Vec<Arc<Pod>>,
    /// Pods that lose their finalizer and are deleted; they do not count.
    pub(super) discard: Vec<Arc<Pod>>,
    /// Pods to make.
    pub(super) create: Vec<NewPod>,
    /// The status to write, once [`observe`] has added what the pods are then.
    pub(super) status: JobStatus,
    /// Pods that lose their finalizer when the status that notes them is written.
    pub(super) untrack: Vec<Arc<Pod>>,
    /// When something is due without any event.
    pub(super) look_again: Option<Duration>,
}

impl Plan {
    fn due_in(&mut self, wait: Option<Duration>) {
        self.look_again = self.look_again.into_iter().chain(wait).min();
    }
}

/// What to do with the job's `pods`.
pub(super) fn plan(job: &Job, pods: &[Arc<Pod>], now: Timestamp) -> Plan {
    let Some(spec) = &job.spec else { return Plan::default() };
    let mut plan = Plan { status: tally::counted(job, pods), ..Plan::default() };
    let told = Ending::told(&plan.status);
    if told.is_none() {
        begin(spec, &mut plan.status, now);
    }
    let view = View::of(spec, &plan.status, pods);
    let ending = told.or_else(|| Ending::new(&view, &plan.status, now));
    match &ending {
        Some(ending) if ending.well => plan.discard = owned(view.active.iter().take(BURST)),
        Some(_) => plan.delete = owned(view.active.iter().take(BURST)),
        None => {
            plan.look_again = ending::deadline(spec, &plan.status, now);
            manage(&view, &mut plan, now);
        }
    }
    let ending = ending.or_else(|| Ending::completed().filter(|_| is_complete(&view)));
    count_ended(&view, ending.as_ref(), &mut plan);
    if let Some(ending) = ending {
        let conditions = plan.status.conditions.get_or_insert_default();
        Condition { type_: ending.target(), holds: true, reason: &ending.reason, message: ending.message }
            .set_job(conditions, now);
    }
    plan
}

fn owned<'a>(pods: impl Iterator<Item = &'a &'a Arc<Pod>>) -> Vec<Arc<Pod>> {
    pods.map(|pod| Arc::clone(pod)).collect()
}

/// Notes when the job began, and whether it is suspended.
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
    } else if conditions.iter().any(|condition| condition.type_ == "Suspended") {
        (false, "JobResumed", "Job resumed")
    } else {
        return;
    };
    Condition { type_: "Suspended", holds, reason, message: message.into() }.set_job(conditions, now);
}

fn is_complete(view: &View<'_>) -> bool {
    let is_enough = match view.spec.completions {
        Some(completions) => view.succeeded >= completions,
        // without a number the first success says that there is no more to do
        None => view.succeeded > 0,
    };
    is_enough && view.active.is_empty()
}

/// Makes what is missing, or takes away what is too much; never both.
fn manage(view: &View<'_>, plan: &mut Plan, now: Timestamp) {
    let active = view.active.len();
    if view.spec.suspend == Some(true) {
        plan.discard = owned(view.active.iter().take(BURST));
        return;
    }
    let wanted = wanted(view);
    plan.discard = surplus(view, active.saturating_sub(wanted));
    if !plan.discard.is_empty() {
        return;
    }
    // where the policy says so, an ending pod keeps its place until it is gone
    let ending = view.pods.iter().filter(|pod| view.replaces_only_failed() && is_terminating(pod)).count();
    let missing = wanted.saturating_sub(active.saturating_add(ending)).min(BURST);
    if missing == 0 {
        return;
    }
    if view.spec.backoff_limit_per_index.is_some() {
        create_independent(view, missing, plan, now);
        return;
    }
    let has_failed = |pod: &Pod| phase(pod) == "Failed" && pod.metadata.deletion_timestamp.is_none();
    if let Some(wait) = backoff::of_job(view.pods, has_failed, now) {
        plan.due_in(Some(wait));
        return;
    }
    plan.create = if view.is_indexed() {
        let new = |index| NewPod { index: Some(index), failures: None };
        pending(view, missing).into_iter().map(new).collect()
    } else {
        vec![NewPod::default(); missing]
    };
}

/// How many pods should run.
fn wanted(view: &View<'_>) -> usize {
    let parallelism = view.spec.parallelism.unwrap_or(1);
    let wanted = match view.spec.completions {
        Some(completions) => parallelism.min(completions.saturating_sub(view.succeeded)),
        // those that run may end well too
        None if view.succeeded > 0 => return view.active.len(),
        None => parallelism,
    };
    usize::try_from(wanted).unwrap_or_default()
}

/// The pods that go: those without a number of the job's, those whose number another has, and then as many as are too many.
fn surplus(view: &View<'_>, too_many: usize) -> Vec<Arc<Pod>> {
    let (mut gone, mut kept) = (Vec::new(), Vec::new());
    let mut taken = BTreeSet::new();
    // from the one that is worth most
    for pod in view.active.iter().rev() {
        let is_wrong = view.is_indexed() && view.index(pod).is_none_or(|index| !taken.insert(index));
        if is_wrong { &mut gone } else { &mut kept }.push(Arc::clone(pod));
    }
    let more = too_many.saturating_sub(gone.len());
    gone.extend(kept.into_iter().rev().take(more));
    gone.truncate(BURST);
    gone
}

/// The lowest numbers that nothing was done about.
fn pending(view: &View<'_>, missing: usize) -> Vec<i32> {
    let keeps_place = |pod: &&Arc<Pod>| is_active(pod) || view.replaces_only_failed() && is_terminating(pod);
    let taken: BTreeSet<_> = view.pods.iter().filter(keeps_place).filter_map(|pod| index(pod)).collect();
    let done = |index| view.succeeded_indexes.end_of_range(index).or(view.failed_indexes.end_of_range(index));
    let (mut free, mut index) = (Vec::new(), 0);
    while free.len() < missing && index < view.spec.completions.unwrap_or_default() {
        // as many as are done at once are passed over at once: nobody bounds their number
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

/// Makes pods whose numbers fail each for itself.
fn create_independent(view: &View<'_>, missing: usize, plan: &mut Plan, now: Timestamp) {
    let kept = view.kept_for_count();
    for index in pending(view, missing) {
        let mut failures = (0, 0);
        if let Some(pod) = kept.get(&index) {
            failures = view.failures_with(pod);
            let all = usize::try_from(failures.0.saturating_add(failures.1)).unwrap_or_default();
            if let Some(wait) = backoff::left(all, backoff::ended_at(pod), now) {
                plan.due_in(Some(wait));
                continue;
            }
        }
        plan.create.push(NewPod { index: Some(index), failures: Some(failures) });
    }
}

/// Notes the pods that ended, and frees those that are noted or need not be.
fn count_ended(view: &View<'_>, ending: Option<&Ending>, plan: &mut Plan) {
    let fails = ending.is_some_and(|ending| !ending.well);
    let rest = if fails { End::Failed } else { End::Uncounted };
    let mut ended = view.ended.clone();
    if ending.is_some() {
        // whatever is left ends with the job
        let is_new =
            |pod: &&Arc<Pod>| is_tracked(pod) && !ended.iter().any(|(known, _)| known.uid() == pod.uid());
        let (succeeded, failed) = tally::noted(&plan.status);
        let is_noted =
            |pod: &&Arc<Pod>| pod.uid().is_some_and(|uid| succeeded.contains(&uid) || failed.contains(&uid));
        let left: Vec<_> = view.pods.iter().filter(is_new).filter(|pod| !is_noted(pod)).collect();
        // those that were only now told to go are freed as they go
        let left = left.into_iter().filter(|pod| fails || !is_active(pod));
        ended.extend(left.map(|pod| (pod, rest)));
    }
    let kept = if ending.is_none() { view.kept_for_count() } else { Default::default() };
    let kept: BTreeSet<_> = kept.values().filter_map(|pod| pod.uid()).collect();
    let room = MAX_UNCOUNTED.saturating_sub(kept.len());
    let mut free: Vec<Arc<Pod>> = Vec::new();
    let (succeeded, failed) = tally::noted(&plan.status);
    let noted =
        |pod: &&Arc<Pod>| pod.uid().is_some_and(|uid| succeeded.contains(&uid) || failed.contains(&uid));
    free.extend(view.pods.iter().filter(noted).filter(|pod| is_tracked(pod)).cloned());
    for (pod, end) in ended.into_iter().take(room.saturating_sub(free.len())) {
        match end {
            End::Succeeded if view.is_indexed() => {}
            End::Uncounted => {}
            End::Succeeded | End::Failed => tally::note(&mut plan.status, pod, end == End::Succeeded),
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

/// What of the status follows from the pods as they are after the plan was carried out. The end is told when everything is
/// counted and no pod is left.
pub(super) fn observe(status: &mut JobStatus, pods: &[Arc<Pod>], is_counted: bool, now: Timestamp) {
    let count = |wanted: &dyn Fn(&Pod) -> bool| count(pods.iter().filter(|pod| wanted(pod)).count());
    let active = count(&is_active);
    let terminating = count(&is_terminating);
    status.active = (active > 0).then_some(active);
    status.ready = Some(count(&|pod| is_active(pod) && is_ready(pod)));
    status.terminating = Some(terminating);
    let Some(ending) = Ending::told(status) else { return };
    if !is_counted || !tally::is_settled(status) || active > 0 || terminating > 0 {
        return;
    }
    if ending.well {
        status.completion_time = Some(seconds(now));
    }
    let conditions = status.conditions.get_or_insert_default();
    Condition { type_: ending.condition(), holds: true, reason: &ending.reason, message: ending.message }
        .set_job(conditions, now);
}
