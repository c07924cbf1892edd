//! Which pods of a job come or go next, and how it ends. Pure.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    batch::v1::{Job, JobSpec, PodFailurePolicyRule},
    core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod},
};
use kube::ResourceExt;

use super::tally::TRACKING;
use crate::controllers::workloads::pods::{
    deletion_rank, from_template, is_active, is_finished as has_ended, phase,
};

/// The annotation and label with the number of an indexed job's pod.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The longest wait before a failed pod is replaced.
const LONGEST_BACKOFF: i64 = 600;
/// The wait after the first failure; it doubles with each.
const BACKOFF: i64 = 10;

/// How a job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Complete,
    Failed { reason: &'static str, message: String },
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Pods to make, with their number if the job has numbers.
    pub(super) create: Vec<Option<i32>>,
    /// Names of pods to delete.
    pub(super) delete: Vec<String>,
    pub(super) outcome: Option<Outcome>,
    /// `0-3,7`: the numbers that succeeded.
    pub(super) completed: String,
    /// When something is due without any event.
    pub(super) look_again: Option<Duration>,
}

/// Whether the job's end was told.
pub(super) fn is_finished(job: &Job) -> bool {
    let mut conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| {
        matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
    })
}

/// What to do with the job's `pods`, of which so many `(succeeded, failed)` all told.
pub(super) fn plan(job: &Job, pods: &[Arc<Pod>], tally: (i32, i32), now: Timestamp) -> Plan {
    let spec = job.spec.clone().unwrap_or_default();
    let indexed = spec.completion_mode.as_deref() == Some("Indexed");
    let done = if indexed { completed(job, pods) } else { BTreeSet::new() };
    let mut active: Vec<_> = pods.iter().filter(|pod| is_active(pod)).collect();
    active.sort_by_cached_key(|pod| deletion_rank(pod));
    let mut plan = Plan { completed: ranges(&done), ..Plan::default() };
    let succeeded = if indexed { i32::try_from(done.len()).unwrap_or(i32::MAX) } else { tally.0 };
    let (deadline, overdue) = deadline(job, &spec, now);
    plan.look_again = deadline;
    plan.outcome = outcome(&spec, pods, (succeeded, tally.1), overdue, active.is_empty());
    let suspended = spec.suspend == Some(true);
    if plan.outcome.is_some() || suspended {
        plan.delete = active.iter().map(|pod| pod.name_any()).collect();
        return plan;
    }
    let wanted = wanted(&spec, succeeded);
    let running = usize::try_from(wanted).unwrap_or_default();
    plan.delete =
        active.iter().take(active.len().saturating_sub(running)).map(|pod| pod.name_any()).collect();
    // where the policy says so, an ending pod keeps its place until it is gone
    let ending = pods.iter().filter(|pod| !is_active(pod) && !has_ended(pod)).count();
    let waits = spec.pod_replacement_policy.as_deref() == Some("Failed");
    let there = active.len() + if waits { ending } else { 0 };
    let missing = running.saturating_sub(there);
    if missing == 0 {
        return plan;
    }
    if let Some(wait) = backoff(pods, tally.1, now) {
        plan.look_again = Some(plan.look_again.map_or(wait, |deadline| deadline.min(wait)));
        return plan;
    }
    plan.create = if indexed { free_indexes(&spec, &done, &active, missing) } else { vec![None; missing] };
    plan
}

/// How many pods should run.
fn wanted(spec: &JobSpec, succeeded: i32) -> i32 {
    let parallelism = spec.parallelism.unwrap_or(1);
    match spec.completions {
        Some(completions) => parallelism.min(completions - succeeded).max(0),
        // without a number the first success says that there is no more to do
        None if succeeded > 0 => 0,
        None => parallelism,
    }
}

fn outcome(
    spec: &JobSpec,
    pods: &[Arc<Pod>],
    (succeeded, failed): (i32, i32),
    overdue: bool,
    idle: bool,
) -> Option<Outcome> {
    let fail = |reason, message: String| Some(Outcome::Failed { reason, message });
    if let Some(message) = fatal(spec, pods) {
        return fail("PodFailurePolicy", message);
    }
    if overdue {
        return fail("DeadlineExceeded", "Job was active longer than specified deadline".into());
    }
    let ignored = pods.iter().filter(|pod| phase(pod) == "Failed" && matches(spec, pod, "Ignore")).count();
    let failed = failed - i32::try_from(ignored).unwrap_or_default();
    let restarts: i32 = pods.iter().filter(|pod| is_active(pod)).map(|pod| restarts(pod)).sum();
    let limit = spec.backoff_limit.unwrap_or(6);
    let restarts_in_place =
        spec.template.spec.as_ref().is_some_and(|spec| spec.restart_policy.as_deref() == Some("OnFailure"));
    if failed > limit || (restarts_in_place && restarts > 0 && restarts >= limit) {
        return fail("BackoffLimitExceeded", "Job has reached the specified backoff limit".into());
    }
    match spec.completions {
        Some(completions) => (succeeded >= completions).then_some(Outcome::Complete),
        None => (succeeded > 0 && idle).then_some(Outcome::Complete),
    }
}

fn restarts(pod: &Pod) -> i32 {
    let status = pod.status.clone().unwrap_or_default();
    let containers = status.container_statuses.into_iter().chain(status.init_container_statuses).flatten();
    containers.map(|container| container.restart_count).sum()
}

/// Why the job fails at once, by its policy.
fn fatal(spec: &JobSpec, pods: &[Arc<Pod>]) -> Option<String> {
    pods.iter().filter(|pod| phase(pod) == "Failed").find_map(|pod| {
        let (index, action, why) = rule(spec, pod)?;
        (action == "FailJob").then(|| format!("{why} matching FailJob rule at index {index}"))
    })
}

/// Whether the first rule of the policy that the failed pod matches has this action.
fn matches(spec: &JobSpec, pod: &Pod, action: &str) -> bool {
    rule(spec, pod).is_some_and(|(_, own, _)| own == action)
}

/// The first rule of the policy that the failed pod matches: its place, its action, and what of the pod it is about.
fn rule<'a>(spec: &'a JobSpec, pod: &Pod) -> Option<(usize, &'a str, String)> {
    let rules = &spec.pod_failure_policy.as_ref()?.rules;
    let found = |(index, rule): (usize, &'a PodFailurePolicyRule)| {
        Some((index, rule.action.as_str(), cause(rule, pod)?))
    };
    rules.iter().enumerate().find_map(found)
}

/// What of the failed pod the rule is about, in the words of Kubernetes.
fn cause(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let status = pod.status.clone().unwrap_or_default();
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let by_code = rule.on_exit_codes.as_ref().and_then(|codes| {
        let containers = [&status.container_statuses, &status.init_container_statuses];
        containers.into_iter().flatten().flatten().find_map(|container| {
            let named = codes.container_name.as_ref().is_none_or(|name| *name == container.name);
            let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
            let among = codes.values.contains(&code) == (codes.operator == "In");
            let container = &container.name;
            (named && code != 0 && among).then(|| {
                format!("Container {container} for pod {namespace}/{name} failed with exit code {code}")
            })
        })
    });
    let mut patterns = rule.on_pod_conditions.iter().flatten();
    by_code.or_else(|| {
        let held = patterns.find(|pattern| {
            let mut conditions = status.conditions.iter().flatten();
            conditions.any(|condition| condition.type_ == pattern.type_ && condition.status == pattern.status)
        })?;
        Some(format!("Pod {namespace}/{name} has condition {}", held.type_))
    })
}

/// How long until the job's deadline, and whether that is past.
fn deadline(job: &Job, spec: &JobSpec, now: Timestamp) -> (Option<Duration>, bool) {
    let started = job.status.as_ref().and_then(|status| status.start_time.as_ref());
    let (Some(seconds), Some(started)) = (spec.active_deadline_seconds, started) else {
        // the deadline runs from the start that is written now
        let seconds = spec.active_deadline_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        return (seconds.map(Duration::from_secs), false);
    };
    let left = SignedDuration::from_secs(seconds) - now.duration_since(started.0);
    if left <= SignedDuration::ZERO { (None, true) } else { (Duration::try_from(left).ok(), false) }
}

/// How long to wait for the next pod after the last failure.
fn backoff(pods: &[Arc<Pod>], failed: i32, now: Timestamp) -> Option<Duration> {
    if failed == 0 {
        return None;
    }
    let ended = |pod: &Arc<Pod>| {
        let status = pod.status.as_ref()?;
        let containers = status.container_statuses.iter().flatten();
        let times = containers
            .filter_map(|container| container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref());
        times.map(|time| time.0).max()
    };
    let last = pods.iter().filter(|pod| phase(pod) == "Failed").filter_map(ended).max()?;
    let seconds =
        BACKOFF.checked_shl(u32::try_from(failed - 1).unwrap_or_default().min(10)).unwrap_or(LONGEST_BACKOFF);
    let left = SignedDuration::from_secs(seconds.min(LONGEST_BACKOFF)) - now.duration_since(last);
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

fn index(pod: &Pod) -> Option<i32> {
    pod.annotations().get(INDEX).and_then(|index| index.parse().ok())
}

/// The numbers that succeeded: those of the status, and those of pods.
fn completed(job: &Job, pods: &[Arc<Pod>]) -> BTreeSet<i32> {
    let text = job.status.as_ref().and_then(|status| status.completed_indexes.clone()).unwrap_or_default();
    let known = text.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<i32>().ok()?..=last.parse::<i32>().ok()?)
    });
    let of_pods = pods.iter().filter(|pod| phase(pod) == "Succeeded").filter_map(|pod| index(pod));
    let limit = job.spec.as_ref().and_then(|spec| spec.completions).unwrap_or_default();
    known.flatten().chain(of_pods).take_while(|index| *index < limit).collect()
}

fn ranges(indexes: &BTreeSet<i32>) -> String {
    let mut ranges: Vec<(i32, i32)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => ranges.push((*index, *index)),
        }
    }
    let text = |(first, last): &(i32, i32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

fn free_indexes(
    spec: &JobSpec,
    done: &BTreeSet<i32>,
    active: &[&Arc<Pod>],
    missing: usize,
) -> Vec<Option<i32>> {
    let taken: BTreeSet<_> = active.iter().filter_map(|pod| index(pod)).collect();
    let all = 0..spec.completions.unwrap_or_default();
    all.filter(|index| !done.contains(index) && !taken.contains(index)).take(missing).map(Some).collect()
}

/// A new pod of the job.
pub(super) fn pod(job: &Job, index: Option<i32>) -> Pod {
    let template = job.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let mut pod = from_template(&template, job);
    pod.finalizers_mut().push(TRACKING.to_owned());
    let Some(index) = index else { return pod };
    pod.metadata.generate_name = Some(format!("{}-{index}-", job.name_any()));
    pod.annotations_mut().insert(INDEX.into(), index.to_string());
    pod.labels_mut().insert(INDEX.into(), index.to_string());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(format!("{}-{index}", job.name_any()));
    let source = ObjectFieldSelector {
        field_path: format!("metadata.labels['{INDEX}']"),
        ..ObjectFieldSelector::default()
    };
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        let variables = container.env.get_or_insert_default();
        if !variables.iter().any(|variable| variable.name == "JOB_COMPLETION_INDEX") {
            variables.push(EnvVar {
                name: "JOB_COMPLETION_INDEX".into(),
                value_from: Some(EnvVarSource { field_ref: Some(source.clone()), ..EnvVarSource::default() }),
                value: None,
            });
        }
    }
    pod
}

#[cfg(test)]
mod tests;
