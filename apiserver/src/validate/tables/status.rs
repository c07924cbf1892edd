//! What controllers report of workloads: numbers that are not negative, and not greater than others.

use kubeapi::{
    cause::Cause,
    validate::{
        engine::{
            Row,
            Rule::{Check, NonNegative},
            row,
        },
        place::Place,
    },
};

pub(super) static DEPLOYMENT: &[Row] = &[
    row("status.observedGeneration", NonNegative),
    row("status.replicas", NonNegative),
    row("status.updatedReplicas", NonNegative),
    row("status.readyReplicas", NonNegative),
    row("status.terminatingReplicas", NonNegative),
    row("status.availableReplicas", NonNegative),
    row("status.unavailableReplicas", NonNegative),
    row("status.collisionCount", NonNegative),
    row("status", Check(deployment)),
];
pub(super) static REPLICA_SET: &[Row] = &[
    row("status.replicas", NonNegative),
    row("status.fullyLabeledReplicas", NonNegative),
    row("status.readyReplicas", NonNegative),
    row("status.availableReplicas", NonNegative),
    row("status.terminatingReplicas", NonNegative),
    row("status.observedGeneration", NonNegative),
    row("status", Check(replica_set)),
];
pub(super) static STATEFUL_SET: &[Row] = &[
    row("status.replicas", NonNegative),
    row("status.readyReplicas", NonNegative),
    row("status.currentReplicas", NonNegative),
    row("status.updatedReplicas", NonNegative),
    row("status.availableReplicas", NonNegative),
    row("status.observedGeneration", NonNegative),
    row("status.collisionCount", NonNegative),
    row("status", Check(stateful_set)),
];
pub(super) static DAEMON_SET: &[Row] = &[
    row("status.currentNumberScheduled", NonNegative),
    row("status.numberMisscheduled", NonNegative),
    row("status.desiredNumberScheduled", NonNegative),
    row("status.numberReady", NonNegative),
    row("status.observedGeneration", NonNegative),
    row("status.updatedNumberScheduled", NonNegative),
    row("status.numberAvailable", NonNegative),
    row("status.numberUnavailable", NonNegative),
    row("status.collisionCount", NonNegative),
];
pub(super) static JOB: &[Row] = &[
    row("status.active", NonNegative),
    row("status.succeeded", NonNegative),
    row("status.failed", NonNegative),
    row("status.ready", NonNegative),
    row("status.terminating", NonNegative),
];
pub(super) static AUTOSCALER: &[Row] = &[
    row("status.currentReplicas", NonNegative),
    row("status.desiredReplicas", NonNegative),
];
pub(super) static BUDGET: &[Row] = &[
    row("status.disruptionsAllowed", NonNegative),
    row("status.currentHealthy", NonNegative),
    row("status.desiredHealthy", NonNegative),
    row("status.expectedPods", NonNegative),
];

fn deployment(status: &Place<'_>, causes: &mut Vec<Cause>) {
    not_above(
        status,
        &["updatedReplicas", "readyReplicas", "availableReplicas"],
        "readyReplicas",
        causes,
    );
}

fn replica_set(status: &Place<'_>, causes: &mut Vec<Cause>) {
    not_above(
        status,
        &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        "readyReplicas",
        causes,
    );
}

fn stateful_set(status: &Place<'_>, causes: &mut Vec<Cause>) {
    let counts = [
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
    ];
    not_above(status, &counts, "status.readyReplicas", causes);
}

/// Checks that there are no more of these than replicas, and no more available ones than ready ones, which are called `ready`.
fn not_above(status: &Place<'_>, counts: &[&str], ready: &str, causes: &mut Vec<Cause>) {
    let number = |name: &str| status.number(name).unwrap_or_default();
    let mut limit = |name: &str, most: i64, what: &str| {
        if number(name) > most {
            causes.push(status.invalid(
                name,
                &number(name).into(),
                &format!("cannot be greater than {what}"),
            ));
        }
    };
    for name in counts {
        limit(name, number("replicas"), "status.replicas");
    }
    limit("availableReplicas", number("readyReplicas"), ready);
}
