//! Checks jobs and cron jobs.

use serde_json::Value;

use super::{
    faults::{in_range, required, supported},
    schedule, workload,
};
use crate::{cause::Cause, object::text_or_empty};

const RESTART_POLICIES: &[&str] = &["OnFailure", "Never"];
/// The longest name of a cron job: the controller appends a dash and ten digits for a job.
const CRON_JOB_NAME_BYTES: usize = 52;

pub(super) fn job(object: &Value) -> Vec<Cause> {
    job_spec(object.get("spec").unwrap_or(&Value::Null), "spec")
}

fn job_spec(spec: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    for field in
        ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"]
    {
        causes.extend(in_range(format!("{path}.{field}"), spec.get(field), 0, i64::MAX));
    }
    let mode = text_or_empty(spec, "/completionMode");
    if !matches!(mode, "" | "NonIndexed" | "Indexed") {
        causes.push(Cause::unsupported(
            format!("{path}.completionMode"),
            &mode.into(),
            &["NonIndexed", "Indexed"],
        ));
    }
    if mode == "Indexed" && spec.get("completions").is_none_or(Value::is_null) {
        let why = "when completion mode is Indexed";
        causes.push(Cause::required(format!("{path}.completions"), why));
    }
    let template = spec.get("template").unwrap_or(&Value::Null);
    causes.extend(workload::pod_template(template, &format!("{path}.template"), RESTART_POLICIES, &[]));
    let labels = template.pointer("/metadata/labels").unwrap_or(&Value::Null);
    if spec.get("selector").is_some_and(|selector| !workload::selects(selector, labels)) {
        let field = format!("{path}.template.metadata.labels");
        causes.push(Cause::invalid(field, labels, "`selector` does not match template `labels`"));
    }
    if spec.get("podFailurePolicy").is_some_and(|policy| !policy.is_null())
        && text_or_empty(template, "/spec/restartPolicy") != "Never"
    {
        let field = format!("{path}.template.spec.restartPolicy");
        let value = text_or_empty(template, "/spec/restartPolicy").into();
        causes.push(Cause::invalid(
            field,
            &value,
            "only \"Never\" is supported when podFailurePolicy is specified",
        ));
    }
    causes
}

/// Checks a change of a job: its pod template is immutable, unless no pod was created yet.
pub(super) fn update_job(old: &Value, new: &Value) -> Vec<Cause> {
    let of =
        |object: &Value, field: &str| object.pointer(&format!("/spec/{field}")).cloned().unwrap_or_default();
    let fixed = |field: &&str| {
        let value = of(new, field);
        (of(old, field) != value)
            .then(|| Cause::invalid(format!("spec.{field}"), &value, "field is immutable"))
    };
    let suspended = of(old, "suspend") == true && old.pointer("/status/startTime").is_none_or(Value::is_null);
    let elastic = of(new, "completionMode") == "Indexed" && of(new, "completions") == of(new, "parallelism");
    let all =
        ["completions", "selector", "template", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"];
    all.iter()
        .filter(|field| !(suspended && **field == "template" || elastic && **field == "completions"))
        .filter_map(fixed)
        .collect()
}

pub(super) fn cron_job(object: &Value) -> Vec<Cause> {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let mut causes = Vec::new();
    match (required(spec, "spec", "schedule"), text_or_empty(spec, "/schedule")) {
        (Some(missing), _) => causes.push(missing),
        (None, text) => causes.extend(
            schedule::check(text).err().map(|why| Cause::invalid("spec.schedule", &text.into(), &why)),
        ),
    }
    causes.extend(supported(spec, "spec", "concurrencyPolicy", &["Allow", "Forbid", "Replace"]));
    for field in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        causes.extend(in_range(format!("spec.{field}"), spec.get(field), 0, i64::MAX));
    }
    let zone = text_or_empty(spec, "/timeZone");
    if !zone.is_empty() && jiff::tz::TimeZone::get(zone).is_err() {
        causes.push(Cause::invalid("spec.timeZone", &zone.into(), &format!("unknown time zone {zone}")));
    }
    let job = spec.pointer("/jobTemplate/spec").unwrap_or(&Value::Null);
    causes.extend(job_spec(job, "spec.jobTemplate.spec"));
    let name = text_or_empty(object, "/metadata/name");
    if name.len() > CRON_JOB_NAME_BYTES {
        let why = format!("must be no more than {CRON_JOB_NAME_BYTES} characters");
        causes.push(Cause::invalid("metadata.name", &name.into(), &why));
    }
    causes
}
