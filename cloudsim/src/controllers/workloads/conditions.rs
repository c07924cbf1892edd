//! Conditions in the statuses of workloads. Pure.

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{DeploymentCondition, ReplicaSetCondition},
        batch::v1::JobCondition,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

/// Truncates to seconds: timestamps of objects have no fractions.
pub(crate) fn seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// A condition to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition<'a> {
    /// The type, as in `Available`.
    pub(crate) type_: &'a str,
    /// The status.
    pub(crate) holds: bool,
    /// The reason, one word for programs.
    pub(crate) reason: &'a str,
    /// The message for people.
    pub(crate) message: String,
}

impl Condition<'_> {
    fn status(&self) -> &'static str {
        if self.holds { "True" } else { "False" }
    }

    /// Sets it in a deployment's conditions; the transition time changes only with the status.
    pub(crate) fn set_deployment(self, conditions: &mut Vec<DeploymentCondition>, now: Timestamp) {
        let now = seconds(now);
        let known = conditions
            .iter()
            .position(|condition| condition.type_ == self.type_);
        let old = known.map(|at| conditions.remove(at));
        let same = |old: &&DeploymentCondition| {
            old.status == self.status() && old.reason.as_deref() == Some(self.reason)
        };
        if let Some(old) = old
            .as_ref()
            .filter(same)
            .filter(|old| old.message.as_ref() == Some(&self.message))
        {
            return conditions.push(old.clone());
        }
        let transition = old
            .filter(|old| old.status == self.status())
            .and_then(|old| old.last_transition_time);
        conditions.push(DeploymentCondition {
            type_: self.type_.to_owned(),
            status: self.status().to_owned(),
            reason: Some(self.reason.to_owned()),
            message: Some(self.message),
            last_update_time: Some(now.clone()),
            last_transition_time: Some(transition.unwrap_or(now)),
        });
    }

    /// Sets it in a replica set's conditions. As in Kubernetes, a condition with the same reason stays: the messages of refusals have names
    /// of pods, and each change would be a reason to create pods at once.
    pub(crate) fn set_replica_set(self, conditions: &mut Vec<ReplicaSetCondition>, now: Timestamp) {
        let known = conditions.iter().any(|old| {
            old.type_ == self.type_
                && old.status == self.status()
                && old.reason.as_deref() == Some(self.reason)
        });
        if known {
            return;
        }
        conditions.retain(|old| old.type_ != self.type_);
        conditions.push(ReplicaSetCondition {
            type_: self.type_.to_owned(),
            status: self.status().to_owned(),
            reason: Some(self.reason.to_owned()),
            message: Some(self.message),
            last_transition_time: Some(seconds(now)),
        });
    }

    /// Sets it in a job's conditions.
    pub(crate) fn set_job(self, conditions: &mut Vec<JobCondition>, now: Timestamp) {
        if conditions
            .iter()
            .any(|old| old.type_ == self.type_ && old.status == self.status())
        {
            return;
        }
        conditions.retain(|old| old.type_ != self.type_);
        conditions.push(JobCondition {
            type_: self.type_.to_owned(),
            status: self.status().to_owned(),
            reason: Some(self.reason.to_owned()),
            message: Some(self.message),
            last_probe_time: Some(seconds(now)),
            last_transition_time: Some(seconds(now)),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_of_a_replica_set_changes_with_its_status_or_reason_only() {
        let condition = |reason: &'static str, message: &str| Condition {
            type_: "ReplicaFailure",
            holds: true,
            reason,
            message: message.to_owned(),
        };
        let mut all = Vec::new();
        let rows = [
            (condition("FailedCreate", "pod a"), "pod a"),
            (condition("FailedCreate", "pod b"), "pod a"),
            (condition("FailedDelete", "pod c"), "pod c"),
            (
                Condition {
                    holds: false,
                    ..condition("FailedDelete", "pod d")
                },
                "pod d",
            ),
        ];
        for (row, expected) in rows {
            row.set_replica_set(&mut all, Timestamp::UNIX_EPOCH);
            let messages: Vec<_> = all.iter().map(|one| one.message.as_deref()).collect();
            assert_eq!(messages, [Some(expected)]);
        }
    }
}
