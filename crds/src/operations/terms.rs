//! What the kinds of node jobs have in common: which nodes, how many at a time, how long, and how many may fail.

use std::{fmt::Debug, time::Duration};

use k8s_openapi::{ClusterResourceScope, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::{Resource, core::object::HasStatus};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{ConfigUpdateJob, ImagePrePullJob, JobStatus, NodeUpgradeJob};

/// Timeout of a node if the job does not say it, seconds.
pub(super) const TIMEOUT_SECONDS: i32 = 300;
/// Number of nodes that run the job at the same time, if the job does not say it.
pub(super) const CONCURRENCY: i32 = 1;
/// Fraction of nodes that may fail, if the job does not say it.
pub(super) const FAILURE_TOLERATE: &str = "0.1";

/// The terms of a node job.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The nodes, by name.
    pub node_names: &'a [String],
    /// The nodes, by label.
    pub label_selector: Option<&'a LabelSelector>,
    /// Number of nodes that run the job at the same time, at least 1.
    pub concurrency: usize,
    /// Timeout of each action on a node.
    pub timeout: Duration,
    /// The fraction of nodes that may fail as the job has it.
    pub failure_tolerate: &'a str,
    /// Resources that each node checks first.
    pub check_items: &'a [String],
}

impl Terms<'_> {
    /// Returns the fraction of nodes that may fail, 0 to 1; `None` if it is no such number.
    pub fn tolerated_fraction(&self) -> Option<f64> {
        let fraction: f64 = self.failure_tolerate.parse().ok()?;
        (0.0..=1.0).contains(&fraction).then_some(fraction)
    }
}

/// A kind of node jobs.
pub trait NodeJob:
    Resource<DynamicType = (), Scope = ClusterResourceScope>
    + HasStatus<Status = JobStatus>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
    /// Returns the terms of the job.
    fn terms(&self) -> Terms<'_>;

    /// Returns the spec, as nodes get it.
    fn spec_value(&self) -> Value;
}

/// Builds the terms from a struct that has their fields.
macro_rules! terms {
    ($spec:expr, $check_items:expr) => {{
        let spec = $spec;
        let seconds = spec.timeout_seconds.filter(|seconds| *seconds > 0);
        Terms {
            node_names: &spec.node_names,
            label_selector: spec.label_selector.as_ref(),
            concurrency: usize::try_from(spec.concurrency.unwrap_or(CONCURRENCY).max(1))
                .unwrap_or(1),
            timeout: Duration::from_secs(
                u64::try_from(seconds.unwrap_or(TIMEOUT_SECONDS)).unwrap_or_default(),
            ),
            failure_tolerate: match spec.failure_tolerate.as_deref() {
                None | Some("") => FAILURE_TOLERATE,
                Some(given) => given,
            },
            check_items: $check_items,
        }
    }};
}

impl NodeJob for NodeUpgradeJob {
    fn terms(&self) -> Terms<'_> {
        terms!(&self.spec, &self.spec.check_items)
    }

    fn spec_value(&self) -> Value {
        let mut spec = serde_json::to_value(&self.spec).unwrap_or_default();
        // Go writes the field in any case
        if let Some(spec) = spec.as_object_mut() {
            spec.entry("imageDigestGatter").or_insert(Value::Null);
        }
        spec
    }
}

impl NodeJob for ImagePrePullJob {
    fn terms(&self) -> Terms<'_> {
        match &self.spec.image_pre_pull_template {
            Some(template) => terms!(template, &template.check_items),
            None => Terms {
                node_names: &[],
                label_selector: None,
                concurrency: 1,
                timeout: Duration::ZERO,
                failure_tolerate: FAILURE_TOLERATE,
                check_items: &[],
            },
        }
    }

    fn spec_value(&self) -> Value {
        serde_json::to_value(&self.spec).unwrap_or_default()
    }
}

impl NodeJob for ConfigUpdateJob {
    fn terms(&self) -> Terms<'_> {
        terms!(&self.spec, &[])
    }

    fn spec_value(&self) -> Value {
        serde_json::to_value(&self.spec).unwrap_or_default()
    }
}
