//! Cron jobs: create jobs on a schedule.

use std::{sync::Arc, time::Duration};

use crate::controllers::reconciler::Action;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use k8s_openapi::{
    api::{
        batch::v1::{CronJob, CronJobSpec, Job},
        core::v1::ObjectReference,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{Resource, ResourceExt, api::ObjectMeta};
use tokio_util::sync::CancellationToken;

mod schedule;

use self::schedule::Schedule;
use super::{cluster::cluster, pods::controller_reference};
use crate::controllers::{
    api_status,
    events::{Component, NewEvent},
    informers::{Failure, Triggers, work},
};

/// The annotation of a job with its scheduled time.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// How many missed times are examined; beyond it the earlier ones are skipped.
const MAX_MISSED: usize = 100;

cluster!(Cluster {
    cron_jobs: CronJob,
    jobs: Job
});

/// Runs until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    let triggers = Triggers::none().and_owned(&cluster.jobs);
    let queue = (cluster.queues.queue("cronjob"), cluster.cron_jobs.clone());
    work(queue, triggers, cluster, reconcile, stop).await;
}

async fn reconcile(cron: Arc<CronJob>, cluster: Arc<Cluster>) -> Result<Action, Failure> {
    let Some(spec) = &cron.spec else {
        return Ok(Action::await_change());
    };
    if cron.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let Some(schedule) = read(&cron, spec, &cluster) else {
        return Ok(Action::await_change());
    };
    let now = clock::now();
    let jobs = cluster
        .jobs
        .controlled_by(cron.meta().uid.as_deref().unwrap_or_default());
    record_completed(&cron, &jobs, &cluster);
    clean_up(&cron, spec, &jobs, &cluster).await?;
    let active: Vec<_> = jobs
        .iter()
        .filter(|job| end(job).is_none())
        .cloned()
        .collect();
    let last = cron
        .status
        .as_ref()
        .and_then(|status| status.last_schedule_time.as_ref())
        .map(|time| time.0);
    let (due, misses) = match spec.suspend {
        Some(true) => (None, false),
        _ => due(&cron, spec, &schedule, last, now),
    };
    if misses {
        let why = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        cluster.events.record(
            &*cron,
            NewEvent::warning(Component::CronJob, "TooManyMissedTimes", why.into()),
        );
    }
    let next = schedule.next(now);
    if next.is_none() && spec.suspend != Some(true) {
        cluster.events.record(&*cron, never(spec));
    }
    let started = match due {
        Some(time) => start(&cron, spec, time, &active, &cluster).await?,
        None => false,
    };
    report(&cron, due.filter(|_| started).or(last), &cluster).await?;
    if spec.suspend == Some(true) {
        return Ok(Action::await_change());
    }
    let next = next.map(|time| Duration::try_from(time.duration_since(now)).unwrap_or_default());
    // a little later than due, since the clocks of timers and timestamps may differ
    Ok(next.map_or_else(Action::await_change, |left| {
        Action::requeue(left + Duration::from_millis(100))
    }))
}

/// Returns the schedule; records an event if it is invalid.
fn read(cron: &CronJob, spec: &CronJobSpec, cluster: &Cluster) -> Option<Schedule> {
    let (reason, message) = match parse(spec) {
        Ok(schedule) => return Some(schedule),
        Err(told) => told,
    };
    cluster
        .events
        .record(cron, NewEvent::warning(Component::CronJob, reason, message));
    None
}

/// Returns the schedule, or reason and message of the event about it.
fn parse(spec: &CronJobSpec) -> Result<Schedule, (&'static str, String)> {
    let zone = match spec.time_zone.as_deref() {
        None | Some("") => TimeZone::UTC,
        Some(name) => TimeZone::get(name).map_err(|error| {
            (
                "UnknownTimeZone",
                format!("invalid timeZone: {name:?}: {error}"),
            )
        })?,
    };
    Schedule::parse(&spec.schedule, zone).map_err(|error| {
        (
            "UnparseableSchedule",
            format!("unparseable schedule: {:?} : {error}", spec.schedule),
        )
    })
}

/// Builds the event about a valid schedule that never comes, as February 31, with the message of Kubernetes.
fn never(spec: &CronJobSpec) -> NewEvent {
    let why = "time difference between two schedules is less than 1 second";
    NewEvent::warning(
        Component::CronJob,
        "InvalidSchedule",
        format!("invalid schedule: {} : {why}", spec.schedule),
    )
}

/// Returns the latest time that is due, was not started and has not missed its deadline, and whether very many were missed.
fn due(
    cron: &CronJob,
    spec: &CronJobSpec,
    schedule: &Schedule,
    last: Option<Timestamp>,
    now: Timestamp,
) -> (Option<Timestamp>, bool) {
    let created = cron.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let Some(mut from) = last.or(created) else {
        return (None, false);
    };
    let deadline = spec
        .starting_deadline_seconds
        .map(SignedDuration::from_secs);
    if let Some(earliest) = deadline.and_then(|deadline| now.checked_sub(deadline).ok()) {
        from = from.max(earliest);
    }
    let mut latest = None;
    for _ in 0..MAX_MISSED {
        match schedule
            .next(latest.unwrap_or(from))
            .filter(|time| *time <= now)
        {
            Some(time) => latest = Some(time),
            None => return (latest, false),
        }
    }
    // very many: start again at the present
    let recent = now
        .checked_sub(SignedDuration::from_hours(24))
        .unwrap_or(from)
        .max(from);
    let times = std::iter::successors(schedule.next(recent), |time| schedule.next(*time));
    (
        times.take_while(|time| *time <= now).last().or(latest),
        true,
    )
}

/// Creates the job of a time, if the concurrency policy allows. Returns whether the time is handled.
async fn start(
    cron: &CronJob,
    spec: &CronJobSpec,
    time: Timestamp,
    active: &[Arc<Job>],
    cluster: &Cluster,
) -> Result<bool, Failure> {
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if !active.is_empty() => {
            let why = "Not starting job because prior execution is running and concurrency policy is Forbid";
            cluster.events.record(
                cron,
                NewEvent::normal(Component::CronJob, "JobAlreadyActive", why.into()),
            );
            return Ok(false);
        }
        Some("Replace") => {
            cluster.delete_all(&cluster.jobs, active.to_vec()).await?;
            for job in active {
                let message = format!("Deleted job {}", job.name_any());
                cluster.events.record(
                    cron,
                    NewEvent::normal(Component::CronJob, "SuccessfulDelete", message),
                );
            }
        }
        _ => {}
    }
    match cluster.create(&cluster.jobs, &job(cron, spec, time)).await {
        Ok(job) => {
            let message = format!("Created job {}", job.name_any());
            cluster.events.record(
                cron,
                NewEvent::normal(Component::CronJob, "SuccessfulCreate", message),
            );
            Ok(true)
        }
        // created before, and not recorded in the status
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(true),
        Err(error) => {
            let message = format!("Error creating job: {}", api_status::text(&error));
            cluster.events.record(
                cron,
                NewEvent::warning(Component::CronJob, "FailedCreate", message),
            );
            Err(error.into())
        }
    }
}

fn job(cron: &CronJob, spec: &CronJobSpec, time: Timestamp) -> Job {
    let template = &spec.job_template;
    let metadata = template.metadata.clone().unwrap_or_default();
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.insert(
        SCHEDULED.into(),
        time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    );
    Job {
        metadata: ObjectMeta {
            // minutes since 1970, as in Kubernetes' names
            name: Some(format!("{}-{}", cron.name_any(), time.as_second() / 60)),
            namespace: cron.namespace(),
            labels: metadata.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(cron)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// Returns how a job has finished, if it has.
fn end(job: &Job) -> Option<&str> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let ended = conditions
        .iter()
        .find(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed"));
    ended
        .filter(|condition| condition.status == "True")
        .map(|condition| condition.type_.as_str())
}

/// Records events for jobs that finished since the last status.
fn record_completed(cron: &CronJob, jobs: &[Arc<Job>], cluster: &Cluster) {
    let active = cron
        .status
        .iter()
        .flat_map(|status| status.active.iter().flatten());
    let active: Vec<_> = active.map(|job| job.uid.clone()).collect();
    for job in jobs.iter().filter(|job| active.contains(&job.metadata.uid)) {
        if let Some(end) = end(job) {
            let message = format!("Saw completed job: {}, condition: {end}", job.name_any());
            cluster.events.record(
                cron,
                NewEvent::normal(Component::CronJob, "SawCompletedJob", message),
            );
        }
    }
    let is_there = |uid: &Option<String>| jobs.iter().any(|job| job.metadata.uid == *uid);
    for job in cron
        .status
        .iter()
        .flat_map(|status| status.active.iter().flatten())
    {
        if !is_there(&job.uid) {
            let message = format!(
                "Active job went missing: {}",
                job.name.as_deref().unwrap_or_default()
            );
            cluster.events.record(
                cron,
                NewEvent::normal(Component::CronJob, "MissingJob", message),
            );
        }
    }
}

async fn clean_up(
    cron: &CronJob,
    spec: &CronJobSpec,
    jobs: &[Arc<Job>],
    cluster: &Cluster,
) -> Result<(), Failure> {
    for (how, limit, default) in [
        ("Complete", spec.successful_jobs_history_limit, 3),
        ("Failed", spec.failed_jobs_history_limit, 1),
    ] {
        let mut ended: Vec<_> = jobs
            .iter()
            .filter(|job| end(job) == Some(how))
            .cloned()
            .collect();
        ended.sort_by_key(|job| (job.metadata.creation_timestamp.clone(), job.name_any()));
        let limit = usize::try_from(limit.unwrap_or(default)).unwrap_or_default();
        ended.truncate(ended.len().saturating_sub(limit));
        for job in ended {
            cluster.delete(&cluster.jobs, &*job).await?;
            let message = format!("Deleted job {}", job.name_any());
            cluster.events.record(
                cron,
                NewEvent::normal(Component::CronJob, "SuccessfulDelete", message),
            );
        }
    }
    Ok(())
}

async fn report(cron: &CronJob, last: Option<Timestamp>, cluster: &Cluster) -> Result<(), Failure> {
    let mut jobs = cluster
        .jobs
        .controlled_by(cron.meta().uid.as_deref().unwrap_or_default());
    jobs.sort_by_key(|job| job.name_any());
    let mut status = cron.status.clone().unwrap_or_default();
    let reference = |job: &Arc<Job>| ObjectReference {
        api_version: Some("batch/v1".into()),
        kind: Some("Job".into()),
        name: job.metadata.name.clone(),
        namespace: job.metadata.namespace.clone(),
        resource_version: None,
        uid: job.metadata.uid.clone(),
        field_path: None,
    };
    let active: Vec<_> = jobs
        .iter()
        .filter(|job| end(job).is_none())
        .map(reference)
        .collect();
    status.active = (!active.is_empty()).then_some(active);
    status.last_schedule_time = last.map(Time);
    let completions = jobs
        .iter()
        .filter_map(|job| job.status.as_ref()?.completion_time.clone());
    status.last_successful_time = completions.chain(status.last_successful_time.clone()).max();
    cluster
        .write_status(&cluster.cron_jobs, cron, &cron.status, &status)
        .await
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn cron(spec: Value) -> CronJob {
        let mut cron = json!({"metadata": {"name": "c", "uid": "1", "creationTimestamp": "2025-06-01T00:00:00Z"},
            "spec": {"schedule": "*/10 * * * *", "jobTemplate": {"spec": {"template": {}}}}});
        for (key, value) in spec.as_object().unwrap() {
            cron["spec"][key] = value.clone();
        }
        serde_json::from_value(cron).unwrap()
    }

    fn midnight(zone: &str) -> Value {
        json!({"schedule": "0 0 * * *", "timeZone": zone})
    }

    #[test]
    fn the_latest_missed_time_is_due() {
        for (spec, last, now, expected) in [
            (json!({}), None, "2025-06-01T00:09:59Z", None),
            (
                json!({}),
                None,
                "2025-06-01T00:10:00Z",
                Some("2025-06-01T00:10:00Z"),
            ),
            (
                json!({}),
                Some("2025-06-01T00:10:00Z"),
                "2025-06-01T00:19:00Z",
                None,
            ),
            (
                json!({}),
                Some("2025-06-01T00:10:00Z"),
                "2025-06-01T01:05:00Z",
                Some("2025-06-01T01:00:00Z"),
            ),
            (
                json!({}),
                Some("2025-06-01T00:10:00Z"),
                "2025-09-01T01:05:00Z",
                Some("2025-09-01T01:00:00Z"),
            ),
            (
                json!({"startingDeadlineSeconds": 60}),
                None,
                "2025-06-01T00:15:00Z",
                None,
            ),
            (
                json!({"startingDeadlineSeconds": 600}),
                None,
                "2025-06-01T00:15:00Z",
                Some("2025-06-01T00:10:00Z"),
            ),
            (midnight("Asia/Tokyo"), None, "2025-06-01T14:59:59Z", None),
            (
                midnight("Asia/Tokyo"),
                None,
                "2025-06-01T15:00:00Z",
                Some("2025-06-01T15:00:00Z"),
            ),
        ] {
            let cron = cron(spec);
            let spec = cron.spec.clone().unwrap();
            let (found, misses) = due(&cron, &spec, &parse(&spec).unwrap(), last.map(at), at(now));
            assert_eq!(found, expected.map(at), "{last:?} {now}");
            assert_eq!(misses, now.starts_with("2025-09"), "{last:?} {now}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_told() {
        for (spec, reason, begin) in [
            (
                json!({"schedule": "no"}),
                "UnparseableSchedule",
                "unparseable schedule: \"no\" : ",
            ),
            (
                json!({"timeZone": "No/Where"}),
                "UnknownTimeZone",
                "invalid timeZone: \"No/Where\": ",
            ),
        ] {
            let (told, message) = parse(cron(spec).spec.as_ref().unwrap()).err().unwrap();
            assert_eq!(told, reason);
            assert!(message.starts_with(begin), "{message}");
        }
    }

    #[test]
    fn a_schedule_that_never_comes_is_told() {
        let cron = cron(json!({"schedule": "59 23 31 2 *"}));
        let spec = cron.spec.clone().unwrap();
        let now = at("2025-06-01T00:15:00Z");
        let schedule = parse(&spec).unwrap();
        assert_eq!(schedule.next(now), None);
        assert_eq!(due(&cron, &spec, &schedule, None, now), (None, false));
        let message = "invalid schedule: 59 23 31 2 * : time difference between two schedules is less than 1 second";
        assert_eq!(
            never(&spec),
            NewEvent::warning(Component::CronJob, "InvalidSchedule", message.into())
        );
    }

    #[test]
    fn a_job_is_named_after_its_time() {
        let cron = cron(json!({}));
        let job = job(
            &cron,
            cron.spec.as_ref().unwrap(),
            at("2025-06-01T00:10:00Z"),
        );
        assert_eq!(job.name_any(), "c-29145610");
        assert_eq!(job.annotations()[SCHEDULED], "2025-06-01T00:10:00Z");
    }
}
