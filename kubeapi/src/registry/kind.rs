//! A kind in one version: its names, where it stands, its schema, and what is particular about its verbs.

use std::{borrow::Cow, fmt, sync::OnceLock};

use serde_json::Value;

use super::{
    builtin::Builtin,
    defined::{Defined, PrinterColumn, ScalePaths},
};
use crate::{builtin_schema::Schema, store::Resource, structural_schema::Structural};

/// One kind in one version.
pub struct Kind {
    /// Empty for the core group.
    pub group: String,
    /// As in `v1`.
    pub version: String,
    /// As in `Pod`.
    pub kind: String,
    /// As in `pods`.
    pub plural: String,
    /// As in `pod`.
    pub singular: String,
    /// As in `po`.
    pub short_names: Vec<String>,
    /// As in `all`.
    pub categories: Vec<String>,
    /// Whether its objects stand in namespaces.
    pub namespaced: bool,
    /// Whether `status` is a subresource, apart from the rest.
    pub status: bool,
    /// The rules that only this kind has; `None` for kinds from definitions.
    pub(crate) builtin: Option<Builtin>,
    /// The columns of kinds from definitions.
    pub(crate) columns: Vec<PrinterColumn>,
    pub(crate) source: SchemaSource,
    pub(super) resource: Resource,
    /// Compiled at the first write: an API that only reads pays nothing for it.
    pub(super) schema: OnceLock<KindSchema>,
    /// Only for kinds from definitions.
    pub(crate) defined: Option<Box<Defined>>,
}

/// A kind's schema, compiled.
#[derive(Debug)]
pub(crate) enum KindSchema {
    /// Of a published type.
    Published(Schema),
    /// Of a definition.
    Defined(Box<Structural>),
}

/// Where a kind's schema comes from.
pub(crate) enum SchemaSource {
    /// The published type.
    Published {
        /// Such as `io.k8s.api.core.v1.Pod`.
        name: Cow<'static, str>,
        /// `None` for a type that is newer than those of the dependency.
        #[cfg(test)]
        generate: Option<fn(&mut k8s_openapi::schemars::SchemaGenerator) -> k8s_openapi::schemars::Schema>,
    },
    /// The definition's `openAPIV3Schema`.
    Definition(Value),
}

impl Kind {
    /// `v1` or `coordination.k8s.io/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Where its objects are stored; also the name of the collection in messages.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// The kind of its lists.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    pub(crate) fn is(&self, builtin: Builtin) -> bool {
        self.builtin == Some(builtin)
    }

    pub(super) fn same_place(&self, other: &Self) -> bool {
        self.plural == other.plural && self.version == other.version && self.group == other.group
    }

    pub(crate) fn schema(&self) -> &KindSchema {
        self.schema.get_or_init(|| match &self.source {
            SchemaSource::Published { name, .. } => KindSchema::Published(Schema::published(name)),
            SchemaSource::Definition(document) => KindSchema::Defined(Box::new(Structural::new(document))),
        })
    }

    /// Whether the schema has been asked for.
    pub(crate) fn is_compiled(&self) -> bool {
        self.schema.get().is_some()
    }

    /// Where `scale` is, for the kinds that have it.
    pub(crate) fn scale(&self) -> Option<ScalePaths> {
        use Builtin as B;
        let scales = |builtin| {
            matches!(builtin, B::Deployment | B::ReplicaSet | B::StatefulSet | B::ReplicationController)
        };
        if self.builtin.is_some_and(scales) {
            return Some(ScalePaths {
                replicas: "/spec/replicas".into(),
                status_replicas: "/status/replicas".into(),
                selector: Some("/spec/selector".into()),
            });
        }
        self.defined.as_ref()?.scale.clone()
    }

    /// Whether its definition is being deleted, so that nothing new may be created.
    pub(crate) fn is_terminating(&self) -> bool {
        self.defined.as_ref().is_some_and(|defined| defined.is_terminating())
    }

    /// Whether `metadata.generation` counts the changes of what is wanted.
    pub(crate) fn counts_generations(&self) -> bool {
        use Builtin as B;
        self.builtin.is_none_or(|builtin| {
            matches!(
                builtin,
                B::Pod
                    | B::ReplicationController
                    | B::Deployment
                    | B::ReplicaSet
                    | B::DaemonSet
                    | B::StatefulSet
                    | B::Job
                    | B::CronJob
                    | B::PodDisruptionBudget
                    | B::Ingress
                    | B::IngressClass
                    | B::NetworkPolicy
                    | B::PriorityClass
                    | B::CustomResourceDefinition
                    | B::ValidatingAdmissionPolicy
                    | B::ValidatingAdmissionPolicyBinding
                    | B::MutatingAdmissionPolicy
                    | B::MutatingAdmissionPolicyBinding
                    | B::ValidatingWebhookConfiguration
                    | B::MutatingWebhookConfiguration
                    | B::ResourceSlice
                    | B::DeviceClass
                    | B::FlowSchema
                    | B::PriorityLevelConfiguration
            )
        })
    }

    /// Whether an update may leave out `metadata.resourceVersion`.
    pub(crate) fn allows_unconditional_update(&self) -> bool {
        use Builtin as B;
        let needs_version = |builtin| {
            matches!(
                builtin,
                B::Lease
                    | B::CustomResourceDefinition
                    | B::PodDisruptionBudget
                    | B::VolumeAttachment
                    | B::CsiDriver
                    | B::CsiNode
                    | B::CsiStorageCapacity
                    | B::RuntimeClass
                    | B::ValidatingAdmissionPolicy
                    | B::ValidatingAdmissionPolicyBinding
                    | B::MutatingAdmissionPolicy
                    | B::MutatingAdmissionPolicyBinding
                    | B::ValidatingWebhookConfiguration
                    | B::MutatingWebhookConfiguration
                    | B::FlowSchema
                    | B::PriorityLevelConfiguration
                    | B::ApiService
            )
        };
        self.builtin.is_some_and(|builtin| !needs_version(builtin))
    }

    /// Whether an update may create.
    pub(crate) fn allows_create_on_update(&self) -> bool {
        use Builtin as B;
        self.builtin.is_some_and(|builtin| {
            matches!(
                builtin,
                B::Lease
                    | B::Event
                    | B::NewEvent
                    | B::Endpoints
                    | B::Service
                    | B::LimitRange
                    | B::Role
                    | B::RoleBinding
                    | B::ClusterRole
                    | B::ClusterRoleBinding
                    | B::RuntimeClass
            )
        })
    }

    /// Whether a deletion answers the object and not a `Status`.
    pub(crate) fn answers_deleted(&self) -> bool {
        use Builtin as B;
        self.builtin.is_some_and(|builtin| {
            matches!(
                builtin,
                B::Pod
                    | B::Service
                    | B::ServiceAccount
                    | B::PersistentVolume
                    | B::PersistentVolumeClaim
                    | B::PodTemplate
                    | B::ResourceQuota
            )
        })
    }

    /// Whether a creation keeps the `status` that it brings: kubelets register their nodes with one.
    pub(crate) fn keeps_status_on_create(&self) -> bool {
        !self.status || self.is(Builtin::Node)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({} {})", self.api_version(), self.kind)
    }
}
