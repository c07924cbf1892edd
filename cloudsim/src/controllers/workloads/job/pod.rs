//! The pods that a job creates. Pure.

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod},
};
use kube::ResourceExt;

use super::tally::TRACKING;
use crate::controllers::workloads::pods::from_template;

/// The annotation and label with the completion index.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The annotation with the earlier failures of the index.
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The annotation with the ignored failures of the index.
pub(super) const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// A pod to create.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NewPod {
    /// The completion index, if the job is indexed.
    pub(super) index: Option<i32>,
    /// The numbers of failures and of ignored failures of the index, if each index has its own limit.
    pub(super) failures: Option<(i32, i32)>,
}

/// Returns the completion index of a pod.
pub(super) fn index(pod: &Pod) -> Option<i32> {
    number(pod, INDEX)
}

/// Returns the earlier failures of the pod's index, and how many of them were ignored.
pub(super) fn failures(pod: &Pod) -> (i32, i32) {
    (
        number(pod, FAILURES).unwrap_or_default(),
        number(pod, IGNORED_FAILURES).unwrap_or_default(),
    )
}

fn number(pod: &Pod, annotation: &str) -> Option<i32> {
    pod.annotations()
        .get(annotation)
        .and_then(|number| number.parse().ok())
}

/// Builds the pod.
pub(super) fn new(job: &Job, wanted: NewPod) -> Pod {
    let template = job
        .spec
        .as_ref()
        .map(|spec| spec.template.clone())
        .unwrap_or_default();
    let mut pod = from_template(&template, job);
    pod.finalizers_mut().push(TRACKING.to_owned());
    let Some(index) = wanted.index else {
        return pod;
    };
    pod.metadata.generate_name = Some(format!("{}-{index}-", job.name_any()));
    pod.annotations_mut()
        .insert(INDEX.into(), index.to_string());
    pod.labels_mut().insert(INDEX.into(), index.to_string());
    if let Some((failures, ignored)) = wanted.failures {
        pod.annotations_mut()
            .insert(FAILURES.into(), failures.to_string());
        if ignored > 0 {
            pod.annotations_mut()
                .insert(IGNORED_FAILURES.into(), ignored.to_string());
        }
    }
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(format!("{}-{index}", job.name_any()));
    let source = ObjectFieldSelector {
        field_path: format!("metadata.labels['{INDEX}']"),
        ..ObjectFieldSelector::default()
    };
    for container in spec
        .containers
        .iter_mut()
        .chain(spec.init_containers.iter_mut().flatten())
    {
        let variables = container.env.get_or_insert_default();
        if !variables
            .iter()
            .any(|variable| variable.name == "JOB_COMPLETION_INDEX")
        {
            variables.push(EnvVar {
                name: "JOB_COMPLETION_INDEX".into(),
                value_from: Some(EnvVarSource {
                    field_ref: Some(source.clone()),
                    ..EnvVarSource::default()
                }),
                value: None,
            });
        }
    }
    pod
}
