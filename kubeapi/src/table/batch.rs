//! Rows of jobs and cron jobs.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    age,
    cells::{name, selector, since_creation, text_or},
    printer::{AGE, NAME, Printer, boolean, default_column, integer, wide},
    workload::{names_and_images, number, template},
};
use crate::object::{is_deleting, items, text, text_or_empty};

pub(super) const JOB: Printer = Printer {
    columns: &[
        NAME,
        default_column("Status"),
        default_column("Completions"),
        default_column("Duration"),
        AGE,
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    cells: |object, now| {
        let [containers, images] = template(object);
        vec![
            name(object),
            status(object).into(),
            completions(object).into(),
            duration(object, now).into(),
            since_creation(object, now),
            containers,
            images,
            selector(object.pointer("/spec/selector")).into(),
        ]
    },
};

pub(super) const CRON_JOB: Printer = Printer {
    columns: &[
        NAME,
        default_column("Schedule"),
        default_column("Timezone"),
        boolean("Suspend"),
        integer("Active"),
        default_column("Last Schedule"),
        AGE,
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    cells: |object, now| {
        let suspended = object
            .pointer("/spec/suspend")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        let last = object
            .pointer("/status/lastScheduleTime")
            .filter(|time| !time.is_null());
        let last = last.map_or_else(|| "<none>".to_owned(), |time| age::since(Some(time), now));
        let [containers, images] = names_and_images(items(
            object,
            "/spec/jobTemplate/spec/template/spec/containers",
        ));
        vec![
            name(object),
            text_or_empty(object, "/spec/schedule").into(),
            text_or(object, "/spec/timeZone", "<none>").into(),
            if suspended { "True" } else { "False" }.into(),
            items(object, "/status/active").len().into(),
            last.into(),
            since_creation(object, now),
            containers,
            images,
            selector(object.pointer("/spec/jobTemplate/spec/selector")).into(),
        ]
    },
};

fn status(job: &Value) -> &'static str {
    let holds = |wanted: &str| {
        items(job, "/status/conditions").iter().any(|condition| {
            text(condition, "/type") == Some(wanted) && text(condition, "/status") == Some("True")
        })
    };
    let named = ["Complete", "Failed"]
        .into_iter()
        .find(|wanted| holds(wanted));
    match named {
        Some(named) => named,
        None if is_deleting(job) => "Terminating",
        None if holds("Suspended") => "Suspended",
        None if holds("FailureTarget") => "FailureTarget",
        None if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
        None => "Running",
    }
}

fn completions(job: &Value) -> String {
    let succeeded = number(job, "/status/succeeded");
    match job.pointer("/spec/completions").and_then(Value::as_i64) {
        Some(completions) => format!("{succeeded}/{completions}"),
        None => match number(job, "/spec/parallelism") {
            parallelism if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
            _ => format!("{succeeded}/1"),
        },
    }
}

fn duration(job: &Value, now: Timestamp) -> String {
    let time = |pointer| text(job, pointer).and_then(|time| time.parse::<Timestamp>().ok());
    match (time("/status/startTime"), time("/status/completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => age::human(end.unwrap_or(now).duration_since(start).as_secs()),
    }
}
