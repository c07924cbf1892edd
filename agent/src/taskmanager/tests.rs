//! The jobs of a node, as the cloud sends them.

use std::time::Duration;

use componentbase::Link;
use serde_json::json;
use tokio::{sync::watch, time::timeout};
use wire::node_job::ActionStatus;

use super::{
    jobs::{Job, Jobs, Received},
    task::wait_connected,
};

const PULL: &str = "operations.kubeedge.io/v1alpha2/imageprepulljob/a/node/edge-1";
const UPGRADE: &str = "operations.kubeedge.io/v1alpha2/nodeupgradejob/u/node/edge-1";

fn outcome(action: &str, succeeds: bool) -> ActionStatus {
    ActionStatus {
        action: action.to_owned(),
        succ: succeeds,
        ..ActionStatus::default()
    }
}

/// Begins a job.
fn begin(jobs: &mut Jobs, path: &str, id: &str) -> Job {
    match jobs.receive("edge-1", id, path, "Check", json!({})) {
        Received::Changed(job, _) => job,
        other => panic!("{other:?}"),
    }
}

#[test]
fn actions_are_done_and_reported_in_their_order() {
    let mut jobs = Jobs::default();
    let job = begin(&mut jobs, PULL, "1");
    assert_eq!(jobs.due().unwrap().next.as_deref(), Some("Check"));
    let job = jobs.record(&job, outcome("Check", true)).unwrap();
    assert_eq!(job.next.as_deref(), Some("Pull"));
    let job = jobs.record(&job, outcome("Pull", true)).unwrap();
    assert_eq!((job.next.as_deref(), jobs.due()), (None, None));
    let mut sent = Vec::new();
    while let Some((job, status)) = jobs.unsent() {
        sent.push(status.action);
        jobs.confirm_sent(&job).unwrap();
    }
    assert_eq!(sent, ["Check", "Pull"]);

    // the first action again is a question: all reports are sent again, nothing is done again
    begin(&mut jobs, PULL, "1");
    assert_eq!(jobs.due(), None);
    assert_eq!(jobs.unsent().unwrap().1.action, "Check");
    // of another job of this name it is an order
    begin(&mut jobs, PULL, "2");
    assert_eq!(jobs.due().unwrap().id, "2");
    assert_eq!(jobs.unsent(), None);
}

#[test]
fn a_report_that_was_asked_for_again_while_it_was_sent_is_sent_again() {
    let mut jobs = Jobs::default();
    let job = begin(&mut jobs, PULL, "1");
    jobs.record(&job, outcome("Check", true)).unwrap();
    let (first, _) = jobs.unsent().unwrap();
    jobs.confirm_sent(&first).unwrap();
    let job = jobs.due().unwrap();
    jobs.record(&job, outcome("Pull", true)).unwrap();
    let (second, _) = jobs.unsent().unwrap();
    begin(&mut jobs, PULL, "1");
    assert_eq!(jobs.confirm_sent(&second), None);
    assert_eq!(jobs.unsent().unwrap().1.action, "Check");
}

#[test]
fn a_failed_action_ends_a_job() {
    let mut jobs = Jobs::default();
    let job = begin(&mut jobs, PULL, "1");
    let job = jobs.record(&job, outcome("Check", false)).unwrap();
    assert_eq!((job.next, job.reports.len()), (None, 1));
}

#[test]
fn messages_that_make_no_sense_change_nothing_or_are_answered() {
    for (path, action, why) in [
        (
            "operations.kubeedge.io/v1alpha2/imageprepulljob/a/node/edge-2",
            "Check",
            "it is for another node",
        ),
        (
            "operations.kubeedge.io/v1alpha2/imageprepulljob/a",
            "Check",
            "its path is not that of a node job",
        ),
        (PULL, "Cancel", "the job is unknown"),
    ] {
        let received = Jobs::default().receive("edge-1", "1", path, action, json!({}));
        assert_eq!(received, Received::Ignored(why));
    }
    for action in ["Explode", "Upgrade", ""] {
        let mut jobs = Jobs::default();
        jobs.receive("edge-1", "1", PULL, action, json!({}));
        let (_, report) = jobs.unsent().unwrap();
        assert_eq!((report.action.as_str(), report.succ), (action, false));
        assert_eq!(report.reason, "ImagePrePullJob has no such action");
        assert_eq!(jobs.due(), None);
    }
}

#[test]
fn a_cancelled_job_is_gone() {
    let mut jobs = Jobs::default();
    let job = begin(&mut jobs, PULL, "1");
    let received = jobs.receive("edge-1", "9", PULL, "Cancel", json!(null));
    assert_eq!(received, Received::Removed(job.clone()));
    assert!(!jobs.has(&job) && jobs.due().is_none());
    assert_eq!(jobs.record(&job, outcome("Check", true)), None);
}

#[test]
fn jobs_are_limited_and_ended_ones_make_room() {
    let mut jobs = Jobs::default();
    let path = |number: usize| {
        format!("operations.kubeedge.io/v1alpha2/imageprepulljob/j{number}/node/edge-1")
    };
    for number in 0..32 {
        begin(&mut jobs, &path(number), "1");
    }
    let refused = begin(&mut jobs, &path(99), "1");
    assert!(refused.reports[0].reason.starts_with("32 other jobs wait"));
    let (report, _) = jobs.unsent().unwrap();
    jobs.confirm_sent(&report).unwrap();
    let Received::Changed(accepted, Some(forgotten)) =
        jobs.receive("edge-1", "1", &path(100), "Check", json!({}))
    else {
        panic!("no room");
    };
    assert_eq!(accepted.next.as_deref(), Some("Check"));
    assert_eq!(forgotten.path, refused.path);
}

#[test]
fn an_upgrade_waits_for_one_confirmation_if_its_job_asks_for_it() {
    for (spec, waits) in [
        (json!({"requireConfirmation": true}), true),
        (json!({"requireConfirmation": false}), false),
        (json!({}), false),
    ] {
        let path = UPGRADE;
        let mut jobs = Jobs::default();
        jobs.receive("edge-1", "1", path, "Check", spec);
        for action in ["Check", "WaitingConfirmation"] {
            assert_eq!(jobs.confirm(), None, "{action}");
            let job = jobs.due().unwrap();
            assert_eq!(job.next.as_deref(), Some(action));
            jobs.record(&job, outcome(action, true)).unwrap();
        }
        assert_eq!(jobs.due().is_none(), waits);
        assert_eq!(jobs.confirm().is_some(), waits);
        assert_eq!(jobs.confirm(), None);
        assert_eq!(jobs.due().unwrap().next.as_deref(), Some("BackUp"));
    }
}

#[test]
fn a_failed_check_or_a_deleted_job_leaves_nothing_to_confirm() {
    for deleted in [false, true] {
        let mut jobs = Jobs::default();
        let spec = json!({"requireConfirmation": true});
        jobs.receive("edge-1", "1", UPGRADE, "Check", spec);
        let job = jobs.due().unwrap();
        let job = jobs.record(&job, outcome("Check", deleted)).unwrap();
        if deleted {
            jobs.record(&job, outcome("WaitingConfirmation", true));
            jobs.receive("edge-1", "1", UPGRADE, "Cancel", json!(null));
        }
        assert_eq!(jobs.confirm(), None);
    }
}

#[test]
fn a_job_that_has_begun_is_before_others() {
    let mut jobs = Jobs::default();
    begin(&mut jobs, PULL, "1");
    let other = begin(&mut jobs, UPGRADE, "2");
    jobs.record(&other, outcome("Check", true)).unwrap();
    assert_eq!(jobs.due().unwrap().id, "2");
}

#[test]
fn stored_jobs_go_on() {
    let mut jobs = Jobs::default();
    let job = begin(&mut jobs, PULL, "1");
    let job = jobs.record(&job, outcome("Check", true)).unwrap();
    let stored = serde_json::to_value(&job).unwrap();
    let jobs = Jobs::of([serde_json::from_value(stored).unwrap()]);
    assert_eq!(jobs.due().unwrap().next.as_deref(), Some("Pull"));
    assert_eq!(jobs.unsent().unwrap().1.action, "Check");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_agent_is_no_connection() {
    for (connects, is_confirmed) in [(true, true), (false, false)] {
        let (state, link) = watch::channel(Link::Down);
        let waiting = tokio::spawn(timeout(Duration::from_secs(60), wait_connected(link)));
        if connects {
            state.send_replace(Link::Up(1));
        }
        drop(state);
        assert_eq!(waiting.await.unwrap().is_ok(), is_confirmed);
    }
}
