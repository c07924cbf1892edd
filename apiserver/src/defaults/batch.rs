//! Defaults of jobs and cron jobs.

use serde_json::{Map, Value};

use super::workload;
use kubeapi::defaults::fields::{default_text, maps};
use kubeapi::object::{as_map, child, default_to, metadata, text_or_empty};

/// How often a job's pods may fail.
const BACKOFF_LIMIT: i64 = 6;
/// The label of a job's pods that its selector matches.
const CONTROLLER_UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
/// The legacy names of that label and of the one with the job's name.
const LEGACY_LABELS: [&str; 2] = ["controller-uid", "job-name"];

pub(super) fn job(spec: &mut Map<String, Value>) {
    // with neither, one pod; with one of them, it says how many the other is
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        spec.insert("completions".into(), 1.into());
    }
    default_to(spec, "parallelism", 1);
    let per_index = spec.contains_key("backoffLimitPerIndex");
    default_to(
        spec,
        "backoffLimit",
        if per_index {
            i64::from(i32::MAX)
        } else {
            BACKOFF_LIMIT
        },
    );
    default_text(spec, "completionMode", "NonIndexed");
    default_to(spec, "suspend", false);
    default_to(spec, "manualSelector", false);
    let has_policy = spec
        .get("podFailurePolicy")
        .is_some_and(|policy| !policy.is_null());
    default_text(
        spec,
        "podReplacementPolicy",
        if has_policy {
            "Failed"
        } else {
            "TerminatingOrFailed"
        },
    );
    if let Some(Value::Object(policy)) = spec.get_mut("podFailurePolicy") {
        for rule in maps(policy, "rules") {
            maps(rule, "onPodConditions")
                .for_each(|condition| default_text(condition, "status", "True"));
        }
    }
    workload::pods(child(spec, "template"));
}

pub(super) fn cron_job(spec: &mut Map<String, Value>) {
    default_text(spec, "concurrencyPolicy", "Allow");
    default_to(spec, "suspend", false);
    default_to(spec, "successfulJobsHistoryLimit", 3);
    default_to(spec, "failedJobsHistoryLimit", 1);
    let job = child(child(spec, "jobTemplate"), "spec");
    workload::pods(child(job, "template"));
}

/// Sets a new job's selector, unless it has one, so that it matches this job's pods only.
pub(super) fn select_own_pods(job: &mut Value) {
    let uid = text_or_empty(job, "/metadata/uid").to_owned();
    let name = text_or_empty(job, "/metadata/name").to_owned();
    let spec = child(as_map(job), "spec");
    let manual = spec
        .get("manualSelector")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    let labels = child(child(child(spec, "template"), "metadata"), "labels");
    if !manual {
        labels.insert(CONTROLLER_UID_LABEL.into(), uid.as_str().into());
        labels.insert("batch.kubernetes.io/job-name".into(), name.as_str().into());
        for (label, value) in LEGACY_LABELS.into_iter().zip([&uid, &name]) {
            labels.insert(label.into(), value.as_str().into());
        }
    }
    let labels = labels.clone();
    if !manual {
        // what the author selects besides is refused by the validation
        let selected = child(child(spec, "selector"), "matchLabels");
        selected.insert(CONTROLLER_UID_LABEL.into(), uid.into());
    }
    let own = metadata(job).get("labels").and_then(Value::as_object);
    if own.is_none_or(Map::is_empty) && !labels.is_empty() {
        metadata(job).insert("labels".into(), labels.into());
    }
}
