//! Validates node jobs when they are written. It does no IO.
//!
//! The texts are for authors of manifests: each names the field, the value, and a valid alternative.

use apiserver::FieldError;
use crds::operations::{ConfigUpdateJob, ImagePrePullJob, NodeJob, NodeUpgradeJob, Terms};
use kube::ResourceExt;
use serde_json::{Value, json};
use wire::node_job::{check_image, check_items, check_name, check_version};

/// Returns the faults of an upgrade.
pub(crate) fn node_upgrade(job: &NodeUpgradeJob) -> Vec<FieldError> {
    let spec = &job.spec;
    let mut faults = common(job, "spec");
    let version = spec.version.as_deref().unwrap_or_default();
    faults.extend(invalid("spec.version", version, check_version(version)));
    if let Some(image) = spec.image.as_deref().filter(|image| !image.is_empty()) {
        faults.extend(invalid("spec.image", image, check_image(image)));
    }
    faults
}

/// Returns the faults of a pull of images.
pub(crate) fn image_pre_pull(job: &ImagePrePullJob) -> Vec<FieldError> {
    let path = "spec.imagePrePullTemplate";
    let Some(template) = &job.spec.image_pre_pull_template else {
        return vec![fault(path, Value::Null, "is required")];
    };
    let mut faults = common(job, path);
    if template.images.is_empty() {
        let why = "must have at least one image";
        faults.push(fault(&format!("{path}.images"), json!([]), why));
    }
    let secret = template.image_secrets.as_deref().unwrap_or_default();
    let is_named = match secret.split_once('/') {
        Some((namespace, name)) => !namespace.is_empty() && !name.is_empty() && !name.contains('/'),
        None => secret.is_empty(),
    };
    if !is_named {
        let why = "must be the namespace and the name of a Secret, for example default/registry";
        faults.push(fault(&format!("{path}.imageSecrets"), secret.into(), why));
    }
    if let Some(times) = template.retry_times.filter(|times| *times < 0) {
        let path = format!("{path}.retryTimes");
        faults.push(fault(&path, times.into(), "must be 0 or greater"));
    }
    faults
}

/// Returns the faults of a change of the configuration. Only nodes know which keys there are.
pub(crate) fn config_update(job: &ConfigUpdateJob) -> Vec<FieldError> {
    let path = "spec.updateFields";
    let mut faults = common(job, "spec");
    if job.spec.update_fields.is_empty() {
        let why =
            "must have at least one key of edgecore.yaml, for example modules.edgeHub.heartbeat";
        faults.push(fault(path, json!({}), why));
    }
    for key in job.spec.update_fields.keys() {
        if key.split('.').any(str::is_empty) || key.contains(char::is_whitespace) {
            let why = "must be a key of edgecore.yaml, for example modules.edgeHub.heartbeat";
            faults.push(fault(path, key.as_str().into(), why));
        }
    }
    faults
}

fn common<J: NodeJob>(job: &J, path: &str) -> Vec<FieldError> {
    let name = job.name_any();
    let mut faults = Vec::from_iter(invalid("metadata.name", &name, check_name(&name)));
    let terms: Terms<'_> = job.terms();
    if terms.node_names.is_empty() == terms.label_selector.is_none() {
        let why = "exactly one of nodeNames and labelSelector is required";
        faults.push(fault(
            &format!("{path}.nodeNames"),
            json!(terms.node_names),
            why,
        ));
    }
    let items = check_items(terms.check_items.iter().map(String::as_str));
    faults.extend(invalid(
        &format!("{path}.checkItems"),
        &terms.check_items.join(","),
        items,
    ));
    if terms.tolerated_fraction().is_none() {
        let (path, value) = (format!("{path}.failureTolerate"), terms.failure_tolerate);
        faults.push(fault(
            &path,
            value.into(),
            "must be a number from 0 to 1, for example \"0.1\"",
        ));
    }
    faults
}

fn invalid(path: &str, value: &str, checked: Result<(), String>) -> Option<FieldError> {
    let why = checked.err()?;
    Some(fault(path, value.into(), &why))
}

fn fault(path: &str, value: Value, why: &str) -> FieldError {
    FieldError {
        field: path.to_owned(),
        value,
        why: why.to_owned(),
    }
}
