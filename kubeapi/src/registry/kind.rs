//! A kind in one version: its names, its storage, its schema, and the peculiarities of its verbs.

use std::{any::Any, borrow::Cow, fmt, sync::OnceLock};

use serde_json::Value;

use super::{
    builtin::Builtin,
    defined::{Defined, PrinterColumn, ScalePaths},
    type_name::TypeName,
};
use crate::schema::{builtin_schema::Schema, structural_schema::Structural};
use objectstore::Resource;

/// One kind in one version.
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The kind, such as `Pod`.
    pub kind: String,
    /// The plural name, such as `pods`.
    pub plural: String,
    /// The singular name, such as `pod`.
    pub singular: String,
    /// The short names, such as `po`.
    pub short_names: Vec<String>,
    /// The categories, such as `all`.
    pub categories: Vec<String>,
    /// Whether its objects belong to namespaces.
    pub namespaced: bool,
    /// Whether `status` is a subresource that is written separately.
    pub status: bool,
    /// Which built-in rules apply; `None` for kinds from definitions.
    pub builtin: Option<Builtin>,
    /// The columns of kinds from definitions.
    pub columns: Vec<PrinterColumn>,
    /// Where its schema comes from.
    pub source: SchemaSource,
    pub(super) resource: Resource,
    /// The schema, compiled at the first write: an API that only reads does not pay for it.
    pub(super) schema: OnceLock<KindSchema>,
    /// What the API's strategy has compiled for the kind.
    pub(super) compiled: OnceLock<Box<dyn Any + Send + Sync>>,
    /// Set only for kinds from definitions.
    pub defined: Option<Box<Defined>>,
}

/// The compiled schema of a kind.
#[derive(Debug)]
pub enum KindSchema {
    /// The schema of a published type.
    Published(Schema),
    /// The schema of a definition.
    Defined(Box<Structural>),
}

/// The source of a kind's schema.
pub enum SchemaSource {
    /// The published type.
    Published {
        /// The type's name, such as `io.k8s.api.core.v1.Pod`.
        name: Cow<'static, str>,
        /// Generates the schema; `None` for a type that is newer than those of the dependency.
        #[cfg(test)]
        generate: Option<
            fn(&mut k8s_openapi::schemars::SchemaGenerator) -> k8s_openapi::schemars::Schema,
        >,
    },
    /// The definition's `openAPIV3Schema`.
    Definition(Value),
}

impl Kind {
    /// Returns `v1` or `coordination.k8s.io/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the name of its collection in messages, which is also that of the stored one unless another kind is stored there.
    pub fn group_resource(&self) -> Resource {
        Resource::new(&self.group, &self.plural)
    }

    /// Returns its group, version and kind.
    pub fn type_name(&self) -> TypeName<'_> {
        TypeName {
            group: &self.group,
            version: &self.version,
            kind: &self.kind,
        }
    }

    /// Returns where its objects are stored, which is also the collection's name in messages.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Returns the group and version in which its objects are stored.
    pub fn storage_version(&self) -> (&str, &str) {
        let stored = self.resource.as_str();
        let group = stored.split_once('.').map_or("", |(_, group)| group);
        match &self.defined {
            Some(defined) => (group, &defined.storage_version),
            None if self.plural == "horizontalpodautoscalers" => (group, "v2"),
            None => (group, &self.version),
        }
    }

    /// Returns the kind of its lists.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// Reports whether these built-in rules apply.
    pub fn is(&self, builtin: Builtin) -> bool {
        self.builtin == Some(builtin)
    }

    pub(super) fn same_place(&self, other: &Self) -> bool {
        self.plural == other.plural && self.version == other.version && self.group == other.group
    }

    /// Returns the compiled schema.
    pub fn schema(&self) -> &KindSchema {
        self.schema.get_or_init(|| match &self.source {
            SchemaSource::Published { name, .. } => KindSchema::Published(Schema::published(name)),
            SchemaSource::Definition(document) => {
                KindSchema::Defined(Box::new(Structural::new(document)))
            }
        })
    }

    /// Returns the cache of the strategy's compiled rules for the kind.
    pub fn compile_cache(&self) -> &OnceLock<Box<dyn Any + Send + Sync>> {
        &self.compiled
    }

    /// Returns the paths of `scale`, for the kinds that have it.
    pub fn scale(&self) -> Option<ScalePaths> {
        use Builtin as B;
        let scales = |builtin| {
            matches!(
                builtin,
                B::Deployment | B::ReplicaSet | B::StatefulSet | B::ReplicationController
            )
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

    /// Reports whether its definition is being deleted, so that nothing new may be created.
    pub fn is_terminating(&self) -> bool {
        self.defined
            .as_ref()
            .is_some_and(|defined| defined.is_terminating())
    }

    /// Reports whether `metadata.generation` counts the changes of the desired state.
    pub fn counts_generations(&self) -> bool {
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
                    | B::PodTemplate
                    | B::EndpointSlice
                    | B::CsiDriver
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

    /// Reports whether an update may leave out `metadata.resourceVersion`.
    pub fn allows_unconditional_update(&self) -> bool {
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

    /// Reports whether an update may create an object.
    pub fn allows_create_on_update(&self) -> bool {
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

    /// Reports whether a deletion returns the object and not a `Status`.
    pub fn answers_deleted(&self) -> bool {
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
                    | B::CsiDriver
                    | B::CsiNode
                    | B::StorageClass
                    | B::VolumeAttachment
                    | B::VolumeAttributesClass
                    | B::DeviceClass
                    | B::ResourceClaim
                    | B::ResourceClaimTemplate
                    | B::ResourceSlice
            )
        })
    }

    /// Reports whether a creation keeps the `status` in the request: kubelets register their nodes with one.
    pub fn keeps_status_on_create(&self) -> bool {
        !self.status || self.is(Builtin::Node)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({} {})", self.api_version(), self.kind)
    }
}
