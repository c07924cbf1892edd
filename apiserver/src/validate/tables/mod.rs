//! The tables of rules: for each kind what its objects must be, what new ones must be too, and what may not change.

use kubeapi::registry::Builtin;
use kubeapi::validate::{
    change::Change,
    engine::Row,
    tables::{claim, pod},
};

mod access;
mod admission;
mod autoscaling;
mod config;
mod endpoints;
mod event;
mod extensions;
mod indexes;
mod job;
mod network;
mod node;
mod persistent_volume;
mod quota;
mod service;
mod status;
mod storage;
mod webhook_url;
mod workload;

/// The rules of a kind.
#[derive(Debug)]
pub(super) struct Tables {
    kind: Builtin,
    /// What objects must be.
    pub(super) content: &'static [Row],
    /// What new objects must be too.
    pub(super) new: &'static [Row],
    /// What may not change.
    pub(super) changes: &'static [Change],
    /// What the status must be, where it is written separately.
    pub(super) status: &'static [Row],
}

const fn of_kind(kind: Builtin, content: &'static [Row]) -> Tables {
    Tables {
        kind,
        content,
        new: &[],
        changes: &[],
        status: &[],
    }
}

impl Tables {
    const fn with_new(mut self, new: &'static [Row]) -> Self {
        self.new = new;
        self
    }

    const fn changes(mut self, changes: &'static [Change]) -> Self {
        self.changes = changes;
        self
    }

    const fn status(mut self, status: &'static [Row]) -> Self {
        self.status = status;
        self
    }
}

/// Returns the tables of a kind, if it has any.
pub(super) fn of(kind: Builtin) -> Option<&'static Tables> {
    KINDS.iter().find(|tables| tables.kind == kind)
}

use Builtin as B;

static KINDS: &[Tables] = &[
    of_kind(B::Namespace, config::NAMESPACE),
    of_kind(B::Node, node::NODE)
        .changes(node::CHANGES)
        .status(node::STATUS),
    of_kind(B::Pod, pod::POD).with_new(pod::NEW_POD),
    of_kind(B::ConfigMap, config::CONFIG_MAP).changes(config::CONFIG_MAP_CHANGES),
    of_kind(B::Secret, config::SECRET).changes(config::SECRET_CHANGES),
    of_kind(B::Event, event::EVENT),
    of_kind(B::NewEvent, event::CHANGED_EVENT)
        .with_new(event::NEW_EVENT)
        .changes(event::CHANGES),
    of_kind(B::Service, service::SERVICE).changes(service::CHANGES),
    of_kind(B::Endpoints, endpoints::ENDPOINTS),
    of_kind(B::EndpointSlice, endpoints::SLICE).changes(endpoints::SLICE_CHANGES),
    of_kind(B::PersistentVolume, persistent_volume::VOLUME).changes(persistent_volume::CHANGES),
    of_kind(B::PersistentVolumeClaim, claim::CLAIM).changes(claim::CHANGES),
    of_kind(B::PodTemplate, workload::POD_TEMPLATE),
    of_kind(B::ReplicationController, workload::REPLICATION_CONTROLLER).status(status::REPLICA_SET),
    of_kind(B::ResourceQuota, quota::QUOTA)
        .changes(quota::QUOTA_CHANGES)
        .status(quota::QUOTA_STATUS),
    of_kind(B::LimitRange, quota::LIMITS),
    of_kind(B::Deployment, workload::DEPLOYMENT)
        .changes(workload::SELECTOR_STAYS)
        .status(status::DEPLOYMENT),
    of_kind(B::ReplicaSet, workload::REPLICA_SET)
        .changes(workload::SELECTOR_STAYS)
        .status(status::REPLICA_SET),
    of_kind(B::DaemonSet, workload::DAEMON_SET)
        .changes(workload::SELECTOR_STAYS)
        .status(status::DAEMON_SET),
    of_kind(B::StatefulSet, workload::STATEFUL_SET)
        .changes(workload::STATEFUL_SET_CHANGES)
        .status(status::STATEFUL_SET),
    of_kind(B::ControllerRevision, workload::CONTROLLER_REVISION)
        .changes(workload::REVISION_CHANGES),
    of_kind(B::Job, job::JOB)
        .changes(job::CHANGES)
        .status(status::JOB),
    of_kind(B::CronJob, job::CRON_JOB).with_new(job::NEW_CRON_JOB),
    of_kind(B::HorizontalPodAutoscaler, autoscaling::AUTOSCALER).status(status::AUTOSCALER),
    of_kind(B::AutoscalerV1, autoscaling::AUTOSCALER_V1).status(status::AUTOSCALER),
    of_kind(B::CertificateSigningRequest, access::REQUEST)
        .changes(access::REQUEST_CHANGES)
        .status(access::CONDITIONS),
    of_kind(B::Lease, config::LEASE),
    of_kind(B::Ingress, network::INGRESS).with_new(network::NEW_INGRESS),
    of_kind(B::IngressClass, network::CLASS).changes(network::CLASS_CHANGES),
    of_kind(B::NetworkPolicy, network::POLICY),
    of_kind(B::IpAddress, network::ADDRESS).changes(network::ADDRESS_CHANGES),
    of_kind(B::ServiceCidr, network::RANGE).changes(network::RANGE_CHANGES),
    of_kind(B::PodDisruptionBudget, autoscaling::BUDGET).status(status::BUDGET),
    of_kind(B::Role, access::ROLE),
    of_kind(B::RoleBinding, access::BINDING).changes(access::BINDING_CHANGES),
    of_kind(B::ClusterRole, access::CLUSTER_ROLE),
    of_kind(B::ClusterRoleBinding, access::CLUSTER_BINDING).changes(access::BINDING_CHANGES),
    of_kind(B::PriorityClass, config::PRIORITY_CLASS).changes(config::PRIORITY_CLASS_CHANGES),
    of_kind(B::StorageClass, storage::CLASS).changes(storage::CLASS_CHANGES),
    of_kind(B::VolumeAttributesClass, storage::ATTRIBUTES_CLASS)
        .changes(storage::ATTRIBUTES_CLASS_CHANGES),
    of_kind(B::VolumeAttachment, storage::ATTACHMENT).changes(storage::ATTACHMENT_CHANGES),
    of_kind(B::CsiDriver, storage::DRIVER).changes(storage::DRIVER_CHANGES),
    of_kind(B::CsiNode, storage::NODE).changes(storage::NODE_CHANGES),
    of_kind(B::CsiStorageCapacity, storage::CAPACITY).changes(storage::CAPACITY_CHANGES),
    of_kind(B::RuntimeClass, config::RUNTIME_CLASS).changes(config::RUNTIME_CLASS_CHANGES),
    of_kind(B::ValidatingAdmissionPolicy, admission::VALIDATING_POLICY),
    of_kind(
        B::ValidatingAdmissionPolicyBinding,
        admission::VALIDATING_BINDING,
    ),
    of_kind(B::MutatingAdmissionPolicy, admission::MUTATING_POLICY),
    of_kind(
        B::MutatingAdmissionPolicyBinding,
        admission::MUTATING_BINDING,
    ),
    of_kind(
        B::ValidatingWebhookConfiguration,
        admission::VALIDATING_WEBHOOKS,
    ),
    of_kind(
        B::MutatingWebhookConfiguration,
        admission::MUTATING_WEBHOOKS,
    ),
    of_kind(B::ResourceClaim, &[]).changes(extensions::CLAIM_CHANGES),
    of_kind(B::ResourceClaimTemplate, &[]).changes(extensions::CLAIM_CHANGES),
    of_kind(B::ResourceSlice, extensions::RESOURCE_SLICE)
        .changes(extensions::RESOURCE_SLICE_CHANGES),
    of_kind(B::FlowSchema, extensions::FLOW_SCHEMA),
    of_kind(B::PriorityLevelConfiguration, extensions::PRIORITY_LEVEL),
    of_kind(B::ApiService, extensions::API_SERVICE),
];
