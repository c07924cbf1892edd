//! Jobs and those that make them by the clock.

use serde_json::{Map, Value, json};

use super::{
    fields::{default_text, maps},
    workload,
};
use crate::object::{as_map, child, default_to, metadata, text_or_empty};

/// How often a job's pods may fail.
const BACKOFF_LIMIT: i64 = 6;
/// The label of a job's pods that its selector asks for.
const CONTROLLER: &str = "batch.kubernetes.io/controller-uid";
/// The same, and the job's name, under their names of old.
const LEGACY: [&str; 2] = ["controller-uid", "job-name"];

pub(super) fn job(spec: &mut Map<String, Value>) {
    // with neither, one pod; with one of them, it says how many the other is
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        spec.insert("completions".into(), 1.into());
    }
    default_to(spec, "parallelism", 1);
    let per_index = spec.contains_key("backoffLimitPerIndex");
    default_to(spec, "backoffLimit", if per_index { i64::from(i32::MAX) } else { BACKOFF_LIMIT });
    default_text(spec, "completionMode", "NonIndexed");
    default_to(spec, "suspend", false);
    default_to(spec, "manualSelector", false);
    let has_policy = spec.get("podFailurePolicy").is_some_and(|policy| !policy.is_null());
    default_text(spec, "podReplacementPolicy", if has_policy { "Failed" } else { "TerminatingOrFailed" });
    if let Some(Value::Object(policy)) = spec.get_mut("podFailurePolicy") {
        for rule in maps(policy, "rules") {
            maps(rule, "onPodConditions").for_each(|condition| default_text(condition, "status", "True"));
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

/// Gives a new job, unless it brings a selector of its own, one that finds no other job's pods.
pub(super) fn select_own_pods(job: &mut Value) {
    let uid = text_or_empty(job, "/metadata/uid").to_owned();
    let name = text_or_empty(job, "/metadata/name").to_owned();
    let spec = child(as_map(job), "spec");
    let manual = spec.get("manualSelector").and_then(Value::as_bool).unwrap_or(false);
    let labels = child(child(child(spec, "template"), "metadata"), "labels");
    if !manual {
        labels.insert(CONTROLLER.into(), uid.as_str().into());
        labels.insert("batch.kubernetes.io/job-name".into(), name.as_str().into());
        for (label, value) in LEGACY.into_iter().zip([&uid, &name]) {
            labels.insert(label.into(), value.as_str().into());
        }
    }
    let labels = labels.clone();
    if !manual {
        child(spec, "selector").insert("matchLabels".into(), json!({CONTROLLER: uid}));
    }
    let own = metadata(job).get("labels").and_then(Value::as_object);
    if own.is_none_or(Map::is_empty) && !labels.is_empty() {
        metadata(job).insert("labels".into(), labels.into());
    }
}
