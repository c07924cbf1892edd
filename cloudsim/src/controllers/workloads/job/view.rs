//! A job's pods, classified for planning. Pure.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{
    batch::v1::{JobSpec, JobStatus},
    core::v1::Pod,
};
use kube::ResourceExt;

use super::{
    indexes::Indexes,
    pod::{failures, index},
    policy::{self, Action},
    tally::{self, is_gone_from_node, is_tracked},
};
use crate::controllers::workloads::{
    pods::{deletion_rank, is_active, phase},
    replica_set::count,
};

/// The outcome of a pod with a finalizer that is not counted yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodOutcome {
    Succeeded,
    Failed,
    /// It ended, and is neither.
    Uncounted,
}

/// A job's pods by state.
pub(super) struct View<'a> {
    pub(super) spec: &'a JobSpec,
    pub(super) pods: &'a [Arc<Pod>],
    /// Pods that run or are pending, in the order of deletion.
    pub(super) active: Vec<&'a Arc<Pod>>,
    /// Pods that ended and are not in `uncountedTerminatedPods`.
    pub(super) ended: Vec<(&'a Arc<Pod>, PodOutcome)>,
    pub(super) succeeded_indexes: Indexes,
    pub(super) failed_indexes: Indexes,
    /// The number of succeeded pods; of succeeded indexes in an indexed job.
    pub(super) succeeded: i32,
    /// The number of failed pods.
    pub(super) failed: i32,
}

impl<'a> View<'a> {
    /// Classifies the pods of a job with this status, in which counting is up to date.
    pub(super) fn of(spec: &'a JobSpec, status: &JobStatus, pods: &'a [Arc<Pod>]) -> Self {
        let completions = spec.completions.unwrap_or_default();
        let parse = |text: &Option<String>| {
            Indexes::parse(text.as_deref().unwrap_or_default(), completions)
        };
        let mut active: Vec<_> = pods.iter().filter(|pod| is_active(pod)).collect();
        active.sort_by_cached_key(|pod| deletion_rank(pod));
        let mut view = Self {
            spec,
            pods,
            active,
            ended: Vec::new(),
            succeeded_indexes: parse(&status.completed_indexes),
            failed_indexes: parse(&status.failed_indexes),
            succeeded: 0,
            failed: 0,
        };
        let (succeeded, failed) = tally::uncounted_uids(status);
        let is_noted = |pod: &Pod| {
            pod.uid()
                .is_some_and(|uid| succeeded.contains(&uid) || failed.contains(&uid))
        };
        let fresh = pods.iter().filter(|pod| is_tracked(pod) && !is_noted(pod));
        view.ended = fresh
            .filter_map(|pod| Some((pod, view.end_of(pod)?)))
            .collect();
        view.note_indexes();
        let new =
            |wanted: PodOutcome| count(view.ended.iter().filter(|(_, end)| *end == wanted).count());
        // a status may contain anything
        let sum = |counted: Option<i32>, uncounted: usize, end| {
            counted
                .unwrap_or_default()
                .saturating_add(count(uncounted))
                .saturating_add(new(end))
        };
        view.failed = sum(status.failed, failed.len(), PodOutcome::Failed);
        view.succeeded = if view.is_indexed() {
            view.succeeded_indexes.count()
        } else {
            sum(status.succeeded, succeeded.len(), PodOutcome::Succeeded)
        };
        view
    }

    /// Reports whether the job is indexed.
    pub(super) fn is_indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    /// Reports whether pods are replaced only when they have ended, not when they are being deleted.
    pub(super) fn replaces_only_failed(&self) -> bool {
        self.spec.pod_failure_policy.is_some()
            || self.spec.pod_replacement_policy.as_deref() == Some("Failed")
    }

    /// Returns the pod's completion index, if it is valid for the job.
    pub(super) fn index(&self, pod: &Pod) -> Option<i32> {
        index(pod).filter(|index| (0..self.spec.completions.unwrap_or_default()).contains(index))
    }

    /// Reports whether the pod counts as failed.
    pub(super) fn has_failed(&self, pod: &Pod) -> bool {
        match phase(pod) {
            "Succeeded" => false,
            "Failed" => true,
            _ if is_gone_from_node(pod) => true,
            _ => pod.metadata.deletion_timestamp.is_some() && !self.replaces_only_failed(),
        }
    }

    fn end_of(&self, pod: &Pod) -> Option<PodOutcome> {
        let has_place = !self.is_indexed() || self.index(pod).is_some();
        if phase(pod) == "Succeeded" {
            return Some(if has_place {
                PodOutcome::Succeeded
            } else {
                PodOutcome::Uncounted
            });
        }
        if !self.has_failed(pod) {
            return None;
        }
        // also of a pod that was evicted before a node could make it Failed
        let is_ignored = policy::on_failure(self.spec, pod) == Action::Ignore;
        Some(if has_place && !is_ignored {
            PodOutcome::Failed
        } else {
            PodOutcome::Uncounted
        })
    }

    /// Returns the failures of this failed pod's index, including its own, and how many of them were ignored.
    pub(super) fn failures_with(&self, pod: &Pod) -> (i32, i32) {
        let (failed, ignored) = failures(pod);
        match policy::on_failure(self.spec, pod) {
            Action::Ignore => (failed, ignored.saturating_add(1)),
            _ => (failed.saturating_add(1), ignored),
        }
    }

    fn note_indexes(&mut self) {
        if !self.is_indexed() {
            return;
        }
        for (pod, end) in &self.ended {
            if let (PodOutcome::Succeeded, Some(index)) = (end, index(pod)) {
                self.succeeded_indexes.insert(index);
            }
        }
        let Some(limit) = self.spec.backoff_limit_per_index else {
            return;
        };
        let failed = self
            .pods
            .iter()
            .filter(|pod| is_tracked(pod) && self.has_failed(pod));
        let is_lost = |pod: &Pod| {
            policy::on_failure(self.spec, pod) == Action::FailIndex
                || self.failures_with(pod).0 > limit
        };
        let lost: Vec<i32> = failed
            .filter(|pod| is_lost(pod))
            .filter_map(|pod| self.index(pod))
            .collect();
        for index in lost {
            if !self.succeeded_indexes.contains(index) {
                self.failed_indexes.insert(index);
            }
        }
    }

    /// Returns the failed pods that carry the failure count of their index until they are replaced, if each index has its own limit.
    pub(super) fn failures_kept_for_count(&self) -> BTreeMap<i32, &'a Arc<Pod>> {
        let mut kept: BTreeMap<i32, &'a Arc<Pod>> = BTreeMap::new();
        if self.spec.backoff_limit_per_index.is_none() {
            return kept;
        }
        let is_active = |wanted: i32| self.active.iter().any(|pod| index(pod) == Some(wanted));
        let all = |pod: &Pod| {
            let (failed, ignored) = failures(pod);
            failed.saturating_add(ignored)
        };
        for pod in self
            .pods
            .iter()
            .filter(|pod| is_tracked(pod) && self.has_failed(pod))
        {
            let Some(index) = self.index(pod) else {
                continue;
            };
            let is_over =
                self.succeeded_indexes.contains(index) || self.failed_indexes.contains(index);
            if is_over
                || is_active(index)
                || kept.get(&index).is_some_and(|other| all(other) > all(pod))
            {
                continue;
            }
            kept.insert(index, pod);
        }
        kept
    }
}
