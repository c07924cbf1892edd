//! Jobs and cron jobs.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::validate::schedule;
use kubeapi::{
    cause::Cause,
    object::{items, names, text_or_empty},
    validate::{
        change::{Change, Kept, change, same},
        engine::{
            Row,
            Rule::{
                Always, Check, Choice, MaxItems, NonNegative, OneOf, Present, Required, Selector,
                Table,
            },
            row,
        },
        formats, labels,
        place::Place,
    },
};

use super::workload;
use kubeapi::validate::tables::pod;

const MANY_COMPLETIONS: i64 = 100_000;
const MANY_PARALLEL: i64 = 10_000;
const INDEX_BYTES: usize = 64 * 1024;

pub(super) static JOB: &[Row] = &[
    row("", Check(generated_selector)),
    row("spec", Table(SPEC)),
    row("spec.selector", Present("")),
    row("spec.selector?", Selector),
    row("spec", Check(workload::matches_template)),
    row("", Check(host_name)),
];

pub(super) static CRON_JOB: &[Row] = &[
    row("spec.schedule", Required("")),
    row("spec.schedule", Check(schedule_format)),
    row("spec.startingDeadlineSeconds", NonNegative),
    row("spec.timeZone", Check(time_zone)),
    row(
        "spec.concurrencyPolicy",
        Choice(&["Allow", "Forbid", "Replace"]),
    ),
    row("spec.jobTemplate.spec", Table(SPEC)),
    row("spec.jobTemplate.spec", Check(no_selector)),
    row("spec.successfulJobsHistoryLimit", NonNegative),
    row("spec.failedJobsHistoryLimit", NonNegative),
];

pub(super) static NEW_CRON_JOB: &[Row] = &[row("metadata.name", Check(short_name))];

static SPEC: &[Row] = &[
    row("parallelism", NonNegative),
    row("completions", NonNegative),
    row("activeDeadlineSeconds", NonNegative),
    row("backoffLimit", NonNegative),
    row("ttlSecondsAfterFinished", NonNegative),
    row("backoffLimitPerIndex", NonNegative),
    row("maxFailedIndexes", NonNegative),
    row("", Check(failed_indexes)),
    row("managedBy", Check(managed_by)),
    row("completionMode", OneOf(&["NonIndexed", "Indexed"])),
    row("", Check(check_indexed)),
    row("podFailurePolicy?.rules", MaxItems(20)),
    row("podFailurePolicy?.rules[*]", Table(FAILURE_RULE)),
    row("successPolicy?", Check(success_policy)),
    row("", Check(replacement)),
    row("template", Table(pod::TEMPLATE)),
    row("", Check(restart_policy)),
];

const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: &[&str] = &["In", "NotIn"];
const STATES: &[&str] = &["False", "True", "Unknown"];

static FAILURE_RULE: &[Row] = &[
    row("action", Check(action)),
    row("onExitCodes?", Check(exit_codes)),
    row("onPodConditions", MaxItems(20)),
    row("onPodConditions[*]", Table(POD_CONDITION)),
    row("", Check(one_requirement)),
];
static POD_CONDITION: &[Row] = &[
    row("type", Always(names::qualified_name)),
    row("status", Check(state)),
];

/// What of a job may not change.
pub(super) static CHANGES: &[Change] = &[
    change("spec", Kept::Check(completions_stay)),
    change("spec.selector", Kept::Same),
    change("", Kept::Check(template_stays)),
    change("spec.completionMode", Kept::Same),
    change("spec.podFailurePolicy", Kept::Same),
    change("spec.backoffLimitPerIndex", Kept::Same),
    change("spec.managedBy", Kept::Same),
    change("spec.successPolicy", Kept::Same),
];

/// Checks that a generated selector was not replaced.
fn generated_selector(job: &Place<'_>, causes: &mut Vec<Cause>) {
    let spec = job.child("spec", "spec");
    let selector = spec.get("selector");
    if spec.is("manualSelector") || selector.is_null() {
        return;
    }
    let metadata = job.child("metadata", "metadata");
    let (uid, name) = (metadata.text("uid"), metadata.text("name"));
    let labels = spec.pointer("/template/metadata/labels");
    let expected = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    for (label, value) in expected {
        let why = format!("must be '{value}'");
        let field = format!("spec.template.metadata.labels[{label}]");
        match labels.get(label) {
            None => causes.push(Cause::required(field, &why)),
            Some(found) if found != value => causes.push(Cause::invalid(field, labels, &why)),
            Some(_) => {}
        }
    }
    let own: serde_json::Map<_, _> = expected
        .iter()
        .map(|(label, value)| ((*label).to_owned(), json!(value)))
        .collect();
    if labels::selects(selector, &Value::Object(own)) == Some(false) {
        causes.push(spec.invalid("selector", selector, "`selector` not auto-generated"));
    }
}

fn host_name(job: &Place<'_>, causes: &mut Vec<Cause>) {
    let (spec, name) = (
        job.child("spec", "spec"),
        text_or_empty(job.value, "/metadata/name"),
    );
    let Some(completions) = spec.number("completions").filter(|count| *count > 0) else {
        return;
    };
    let longest = format!("{name}-{}", completions - 1);
    if spec.text("completionMode") == "Indexed"
        && !name.is_empty()
        && !names::dns_label(&longest).is_empty()
    {
        let why = format!("will not able to create pod with invalid DNS label: {longest}");
        causes.push(Cause::invalid("metadata.name", &name.into(), &why));
    }
}

fn failed_indexes(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        causes.push(Cause::required(
            spec.field("backoffLimitPerIndex"),
            "when maxFailedIndexes is specified",
        ));
    }
}

fn managed_by(name: &Place<'_>, causes: &mut Vec<Cause>) {
    const LONGEST: usize = 63;
    let Some(text) = name.value.as_str() else {
        return;
    };
    if text.is_empty() {
        return causes.push(Cause::required(name.path(), ""));
    }
    causes.extend(
        formats::domain_prefixed_path(text)
            .iter()
            .map(|why| name.refusal(why)),
    );
    if text.len() > LONGEST {
        causes.push(Cause::too_long(name.path(), LONGEST));
    }
}

fn check_indexed(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let (per_index, failed) = (
        spec.number("backoffLimitPerIndex"),
        spec.number("maxFailedIndexes"),
    );
    let refuse = |field: &str, value: i64, why: String| spec.invalid(field, &value.into(), &why);
    match spec.text("completionMode") {
        "Indexed" => {}
        "" | "NonIndexed" => {
            let why = "requires indexed completion mode";
            causes.extend(per_index.map(|limit| refuse("backoffLimitPerIndex", limit, why.into())));
            causes.extend(failed.map(|limit| refuse("maxFailedIndexes", limit, why.into())));
            return;
        }
        _ => return,
    }
    let (completions, parallelism) = (spec.number("completions"), spec.number("parallelism"));
    if completions.is_none() {
        causes.push(Cause::required(
            spec.field("completions"),
            "when completion mode is Indexed",
        ));
    }
    if let Some(count) = parallelism.filter(|count| *count > MANY_COMPLETIONS) {
        let why = format!(
            "must be less than or equal to {MANY_COMPLETIONS} when completion mode is Indexed"
        );
        causes.push(refuse("parallelism", count, why));
    }
    if let Some(limit) = failed {
        if completions.is_some_and(|completions| limit > completions) {
            causes.push(refuse(
                "maxFailedIndexes",
                limit,
                "must be less than or equal to completions".into(),
            ));
        }
        if limit > MANY_COMPLETIONS {
            causes.push(refuse(
                "maxFailedIndexes",
                limit,
                format!("must be less than or equal to {MANY_COMPLETIONS}"),
            ));
        }
    }
    if per_index.is_none() || completions.is_none_or(|count| count <= MANY_COMPLETIONS) {
        return;
    }
    if failed.is_none() {
        let why = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        causes.push(Cause::required(spec.field("maxFailedIndexes"), &why));
    }
    let why = format!(
        "must be less than or equal to {MANY_PARALLEL} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"
    );
    for (field, value) in [("parallelism", parallelism), ("maxFailedIndexes", failed)] {
        causes.extend(
            value
                .filter(|value| *value > MANY_PARALLEL)
                .map(|value| refuse(field, value, why.clone())),
        );
    }
}

/// A list of texts as Go's `%q` writes it.
fn valid(values: &[&str]) -> String {
    let quoted: Vec<_> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

fn action(action: &Place<'_>, causes: &mut Vec<Cause>) {
    match action.value.as_str().unwrap_or_default() {
        "" => causes.push(Cause::required(action.path(), &valid(ACTIONS))),
        "FailIndex" => {
            let spec = enclosing_spec(action);
            if spec.get("backoffLimitPerIndex").is_none_or(Value::is_null) {
                causes.push(action.refusal("requires the backoffLimitPerIndex to be set"));
            }
        }
        text if !ACTIONS.contains(&text) => {
            causes.push(Cause::unsupported(action.path(), &text.into(), ACTIONS))
        }
        _ => {}
    }
}

/// The `spec` of the job around a rule.
fn enclosing_spec<'a>(place: &Place<'a>) -> &'a Value {
    place.nearest("spec")
}

fn exit_codes(codes: &Place<'_>, causes: &mut Vec<Cause>) {
    let operator = codes.text("operator");
    if operator.is_empty() {
        causes.push(Cause::required(codes.field("operator"), &valid(OPERATORS)));
    } else if !OPERATORS.contains(&operator) {
        causes.push(Cause::unsupported(
            codes.field("operator"),
            &operator.into(),
            OPERATORS,
        ));
    }
    let template = enclosing_spec(codes)
        .pointer("/template")
        .unwrap_or(&Value::Null);
    let name = codes.text("containerName");
    let is_known = ["/spec/containers", "/spec/initContainers"]
        .iter()
        .any(|list| {
            items(template, list)
                .iter()
                .any(|container| text_or_empty(container, "/name") == name)
        });
    if codes.has("containerName") && !is_known {
        let why = "must be one of the container or initContainer names in the pod template";
        causes.push(codes.invalid("containerName", &name.into(), why));
    }
    exit_values(&codes.child("values", "values"), operator, causes);
}

fn exit_values(values: &Place<'_>, operator: &str, causes: &mut Vec<Cause>) {
    const MOST: usize = 255;
    let numbers: Vec<_> = values
        .list()
        .iter()
        .map(|value| value.as_i64().unwrap_or_default())
        .collect();
    if numbers.is_empty() {
        causes.push(values.refusal("at least one value is required"));
    } else if numbers.len() > MOST {
        causes.push(Cause::too_many(
            values.path(),
            numbers.len() as u64,
            MOST as u64,
        ));
    }
    let mut taken = HashSet::new();
    for (index, (number, value)) in numbers.iter().zip(values.list()).enumerate() {
        let item = values.item(index, value);
        if operator == "In" && *number == 0 {
            causes.push(item.refusal("must not be 0 for the In operator"));
        }
        if !taken.insert(number) {
            causes.push(Cause::duplicate_value(item.path(), value));
        }
    }
    if !numbers.is_sorted() {
        causes.push(values.refusal("must be ordered"));
    }
}

fn state(state: &Place<'_>, causes: &mut Vec<Cause>) {
    match state.value.as_str().unwrap_or_default() {
        "" => causes.push(Cause::required(state.path(), &valid(STATES))),
        text if !STATES.contains(&text) => {
            causes.push(Cause::unsupported(state.path(), &text.into(), STATES))
        }
        _ => {}
    }
}

fn one_requirement(rule: &Place<'_>, causes: &mut Vec<Cause>) {
    let why = match (
        rule.has("onExitCodes"),
        !rule.items("onPodConditions").is_empty(),
    ) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    causes.push(Cause::invalid_without_value(rule.path(), why));
}

fn success_policy(policy: &Place<'_>, causes: &mut Vec<Cause>) {
    const MOST: usize = 20;
    let spec = enclosing_spec(policy);
    if text_or_empty(spec, "/completionMode") != "Indexed" {
        return causes.push(policy.refusal("requires indexed completion mode"));
    }
    let rules = policy.child("rules", "rules");
    if rules.list().is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        causes.push(Cause::required(rules.path(), why));
    }
    if rules.list().len() > MOST {
        causes.push(Cause::too_many(
            rules.path(),
            rules.list().len() as u64,
            MOST as u64,
        ));
    }
    let completions = spec
        .get("completions")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    for (index, rule) in rules.list().iter().enumerate() {
        success_rule(&rules.item(index, rule), completions, causes);
    }
}

fn success_rule(rule: &Place<'_>, completions: i64, causes: &mut Vec<Cause>) {
    let count = rule.number("succeededCount");
    if count.is_none() && !rule.has("succeededIndexes") {
        let why = "at least one of succeededCount or succeededIndexes must be specified";
        causes.push(Cause::required(rule.path(), why));
    }
    let mut indexes = None;
    if rule.has("succeededIndexes") {
        let text = rule.text("succeededIndexes");
        if text.len() > INDEX_BYTES {
            causes.push(Cause::too_long(rule.field("succeededIndexes"), INDEX_BYTES));
        }
        match super::indexes::count(text, completions) {
            Ok(count) => indexes = Some(count),
            Err(why) => {
                let why = format!("error parsing succeededIndexes: {why}");
                causes.push(rule.invalid("succeededIndexes", &text.into(), &why));
                indexes = Some(0);
            }
        }
    }
    let Some(count) = count else { return };
    let mut refuse = |why: &str| causes.push(rule.invalid("succeededCount", &count.into(), why));
    if count < 0 {
        refuse(kubeapi::validate::numbers::NEGATIVE);
    }
    if count > completions {
        refuse(&format!(
            "must be less than or equal to {completions} (the number of specified completions)"
        ));
    }
    if let Some(indexes) = indexes.filter(|indexes| count > *indexes) {
        refuse(&format!(
            "must be less than or equal to {indexes} (the number of indexes in the specified succeededIndexes field)"
        ));
    }
}

fn replacement(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let known: &[&str] = if spec.has("podFailurePolicy") {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    let policy = spec.text("podReplacementPolicy");
    if spec.has("podReplacementPolicy") && !known.contains(&policy) {
        causes.push(Cause::unsupported(
            spec.field("podReplacementPolicy"),
            &policy.into(),
            known,
        ));
    }
}

fn restart_policy(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    const KNOWN: &[&str] = &["OnFailure", "Never"];
    let field = spec.field("template.spec.restartPolicy");
    let policy = spec
        .pointer("/template/spec/restartPolicy")
        .as_str()
        .unwrap_or_default();
    match policy {
        "" | "Always" => causes.push(Cause::required(
            field,
            "valid values: \"OnFailure\", \"Never\"",
        )),
        policy if !KNOWN.contains(&policy) => {
            causes.push(Cause::unsupported(field, &policy.into(), KNOWN))
        }
        "OnFailure" if spec.has("podFailurePolicy") => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            causes.push(Cause::invalid(field, &policy.into(), why));
        }
        _ => {}
    }
}

fn schedule_format(schedule: &Place<'_>, causes: &mut Vec<Cause>) {
    let text = schedule.value.as_str().unwrap_or_default();
    if text.is_empty() {
        return;
    }
    if text.contains("TZ") {
        let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        causes.push(schedule.refusal(why));
    } else if let Err(why) = schedule::check(text) {
        causes.push(schedule.refusal(&why));
    }
}

fn time_zone(zone: &Place<'_>, causes: &mut Vec<Cause>) {
    let Some(name) = zone.value.as_str() else {
        return;
    };
    let is_part = |part: &str| {
        !matches!(part, "." | "..")
            && !part.starts_with('-')
            && (1..=14).contains(&part.len())
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte))
    };
    if name.is_empty() {
        causes.push(zone.refusal("timeZone must be nil or non-empty string"));
    } else if name.eq_ignore_ascii_case("local") {
        let why =
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        causes.push(zone.refusal(why));
    } else if !name.split('/').all(is_part) || jiff::tz::TimeZone::get(name).is_err() {
        causes.push(zone.refusal(&format!("unknown time zone {name}")));
    }
}

fn no_selector(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    if spec.has("selector") {
        causes.push(spec.invalid(
            "selector",
            spec.get("selector"),
            "`selector` will be auto-generated",
        ));
    }
    if spec.is("manualSelector") {
        causes.push(Cause::unsupported(
            spec.field("manualSelector"),
            &true.into(),
            &["nil", "false"],
        ));
    }
}

fn short_name(name: &Place<'_>, causes: &mut Vec<Cause>) {
    // the controller appends a dash and ten digits for a job
    const LONGEST: usize = 52;
    if name.value.as_str().is_some_and(|name| name.len() > LONGEST) {
        causes.push(name.refusal(&format!("must be no more than {LONGEST} characters")));
    }
}

fn completions_stay(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let of = |spec: &Value, field: &str| spec.get(field).cloned().unwrap_or_default();
    let after = of(new, "completions");
    if same(&of(old, "completions"), &after) {
        return;
    }
    let why = if of(new, "completionMode") != "Indexed" {
        "field is immutable"
    } else if after.is_null() || after == of(new, "parallelism") {
        return;
    } else {
        "can only be modified in tandem with spec.parallelism"
    };
    causes.push(Cause::invalid("spec.completions", &after, why));
}

/// Checks that the pod template stays; where its pods run may change while no pod was created yet.
fn template_stays(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let template = |job: &Value| job.pointer("/spec/template").cloned().unwrap_or_default();
    let (mut before, mut after) = (template(old), template(new));
    let is_suspended = old
        .pointer("/spec/suspend")
        .is_some_and(|suspend| *suspend == true);
    if is_suspended && old.pointer("/status/startTime").is_none_or(Value::is_null) {
        for template in [&mut before, &mut after] {
            directives(template);
        }
    }
    if !same(&before, &after) {
        causes.push(Cause::invalid(
            "spec.template",
            &template(new),
            "field is immutable",
        ));
    }
}

/// Removes what says where pods run.
fn directives(template: &mut Value) {
    let mut remove = |pointer: &str, fields: &[&str]| {
        if let Some(Value::Object(map)) = template.pointer_mut(pointer) {
            fields
                .iter()
                .for_each(|field| drop(map.shift_remove(*field)));
        }
    };
    remove("/metadata", &["labels", "annotations"]);
    remove("/spec/affinity", &["nodeAffinity"]);
    remove("/spec", &["nodeSelector", "tolerations", "schedulingGates"]);
}
