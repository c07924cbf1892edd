//! Replication controllers as replica sets. Pure.

use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSetCondition, ReplicaSetStatus},
        core::v1::{
            PodTemplateSpec, ReplicationController, ReplicationControllerCondition,
            ReplicationControllerStatus,
        },
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

use super::Replicas;
use crate::controllers::events::Component;

impl Replicas for ReplicationController {
    type Status = ReplicationControllerStatus;

    const COMPONENT: Component = Component::ReplicationController;

    fn selector(&self) -> Option<LabelSelector> {
        let selector = self.spec.as_ref()?.selector.clone();
        Some(LabelSelector {
            match_labels: selector,
            match_expressions: None,
        })
    }

    fn replicas(&self) -> i32 {
        self.spec
            .as_ref()
            .and_then(|spec| spec.replicas)
            .unwrap_or(1)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref()?.template.as_ref()
    }

    fn min_ready_seconds(&self) -> Option<i32> {
        self.spec.as_ref()?.min_ready_seconds
    }

    fn stored_status(&self) -> &Option<ReplicationControllerStatus> {
        &self.status
    }

    fn common_status(&self) -> ReplicaSetStatus {
        let status = self.status.clone().unwrap_or_default();
        let condition = |one: ReplicationControllerCondition| ReplicaSetCondition {
            last_transition_time: one.last_transition_time,
            message: one.message,
            reason: one.reason,
            status: one.status,
            type_: one.type_,
        };
        ReplicaSetStatus {
            available_replicas: status.available_replicas,
            conditions: status
                .conditions
                .map(|all| all.into_iter().map(condition).collect()),
            fully_labeled_replicas: status.fully_labeled_replicas,
            observed_generation: status.observed_generation,
            ready_replicas: status.ready_replicas,
            replicas: status.replicas,
            ..ReplicaSetStatus::default()
        }
    }

    fn of_common(status: ReplicaSetStatus) -> ReplicationControllerStatus {
        let condition = |one: ReplicaSetCondition| ReplicationControllerCondition {
            last_transition_time: one.last_transition_time,
            message: one.message,
            reason: one.reason,
            status: one.status,
            type_: one.type_,
        };
        ReplicationControllerStatus {
            available_replicas: status.available_replicas,
            conditions: status
                .conditions
                .map(|all| all.into_iter().map(condition).collect()),
            fully_labeled_replicas: status.fully_labeled_replicas,
            observed_generation: status.observed_generation,
            ready_replicas: status.ready_replicas,
            replicas: status.replicas,
        }
    }
}
