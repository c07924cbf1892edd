//! Validates node jobs that an API server without the rules of this version's definitions has admitted. It does no IO.
//!
//! The texts are for authors of manifests: each names the field, the value, and a valid alternative.

use apiserver::FieldError;
use crds::operations::{ConfigUpdateJob, ImagePrePullJob, NodeJob, NodeUpgradeJob, Terms};
use kube::ResourceExt;
use serde_json::{Value, json};
use wire::node_job::{check_image, check_items, check_name, check_version};

/// The most images of a pull; the status has the outcome of each on each node.
const MAX_IMAGES: usize = 256;

/// A kind of node jobs that can be validated.
pub(super) trait ValidJob: NodeJob {
    /// Returns the faults of the job.
    fn faults(&self) -> Vec<FieldError>;

    /// Returns why the job cannot run; `None` if it is valid. An API server without the rules of this version may have admitted it.
    fn objection(&self) -> Option<String> {
        let text = |fault: FieldError| format!("{}: {}", fault.field, fault.why);
        let faults: Vec<String> = self.faults().into_iter().map(text).collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }
}

impl ValidJob for NodeUpgradeJob {
    fn faults(&self) -> Vec<FieldError> {
        node_upgrade(self)
    }
}

impl ValidJob for ImagePrePullJob {
    fn faults(&self) -> Vec<FieldError> {
        image_pre_pull(self)
    }
}

impl ValidJob for ConfigUpdateJob {
    fn faults(&self) -> Vec<FieldError> {
        config_update(self)
    }
}

/// Returns the faults of an upgrade.
fn node_upgrade(job: &NodeUpgradeJob) -> Vec<FieldError> {
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
fn image_pre_pull(job: &ImagePrePullJob) -> Vec<FieldError> {
    let path = "spec.imagePrePullTemplate";
    let Some(template) = &job.spec.image_pre_pull_template else {
        return vec![fault(path, Value::Null, "is required")];
    };
    let mut faults = common(job, path);
    let images = format!("{path}.images");
    if template.images.is_empty() || template.images.len() > MAX_IMAGES {
        let why = format!("must have 1 to {MAX_IMAGES} images");
        faults.push(fault(&images, json!(template.images.len()), &why));
    }
    let is_image = |image: &String| !image.is_empty() && !image.contains(char::is_whitespace);
    if let Some(wrong) = template.images.iter().find(|image| !is_image(image)) {
        let why = "must be the name of an image, for example docker.io/library/nginx:1.27";
        faults.push(fault(&images, json!(wrong), why));
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
    faults
}

/// Returns the faults of a change of the configuration. Only nodes know which keys there are.
fn config_update(job: &ConfigUpdateJob) -> Vec<FieldError> {
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
    let (terms, spec): (Terms<'_>, _) = (job.terms(), json!({"spec": job.spec_value()}));
    let below = spec.pointer(&format!("/{}", path.replace('.', "/")));
    for key in ["concurrency", "timeoutSeconds", "retryTimes"] {
        let number = below.and_then(|below| below[key].as_i64());
        if let Some(number) = number.filter(|number| *number < 0) {
            let path = format!("{path}.{key}");
            faults.push(fault(&path, number.into(), "must be 0 or greater"));
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_out_of_range_are_named() {
        let images = |images: Value| json!({"images": images});
        let many = |number| images(json!(vec!["a/b:1"; number]));
        for (template, fault) in [
            (many(1), None),
            (many(256), None),
            (many(257), Some("images: must have 1 to 256 images")),
            (images(json!([])), Some("images: must have 1 to 256 images")),
            (
                images(json!(["a/b:1", ""])),
                Some("images: must be the name of an image"),
            ),
            (
                images(json!(["a b"])),
                Some("images: must be the name of an image"),
            ),
            (
                json!({"images": ["a"], "concurrency": 0, "timeoutSeconds": 0, "retryTimes": 0}),
                None,
            ),
            (
                json!({"images": ["a"], "concurrency": -1}),
                Some("concurrency: must be 0 or greater"),
            ),
            (
                json!({"images": ["a"], "timeoutSeconds": -5}),
                Some("timeoutSeconds: must be 0 or greater"),
            ),
            (
                json!({"images": ["a"], "retryTimes": -1}),
                Some("retryTimes: must be 0 or greater"),
            ),
            (
                json!({"images": ["a"], "failureTolerate": "2"}),
                Some("failureTolerate: must be a number from 0 to 1"),
            ),
            (
                json!({"images": ["a"], "imageSecrets": "a"}),
                Some("imageSecrets: must be the namespace"),
            ),
        ] {
            let mut template = template;
            template["nodeNames"] = json!(["edge-1"]);
            let job =
                json!({"metadata": {"name": "job"}, "spec": {"imagePrePullTemplate": template}});
            let job: ImagePrePullJob = serde_json::from_value(job).unwrap();
            let found = image_pre_pull(&job);
            let found: Vec<String> = found
                .iter()
                .map(|fault| {
                    let field = fault.field.rsplit('.').next().unwrap_or_default();
                    format!("{field}: {}", fault.why)
                })
                .collect();
            assert_eq!(
                found.len(),
                usize::from(fault.is_some()),
                "{template}: {found:?}"
            );
            assert!(
                found
                    .iter()
                    .all(|found| found.starts_with(fault.unwrap_or("?"))),
                "{found:?}"
            );
        }
        let spec = json!({"nodeNames": ["edge-1"], "updateFields": {"modules.edgeHub.heartbeat": "20"}, "timeoutSeconds": -1});
        let job = json!({"metadata": {"name": "job"}, "spec": spec});
        let job: ConfigUpdateJob = serde_json::from_value(job).unwrap();
        assert_eq!(config_update(&job)[0].field, "spec.timeoutSeconds");
    }
}
