//! The kinds that an API serves.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    schemars::{Schema as JsonSchema, SchemaGenerator},
};
use serde_json::Value;

use crate::{schema::Schema, store::Resource};

mod builtin;
mod crd;

pub(crate) use builtin::Builtin;
pub(crate) use crd::PrinterColumn;

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
    resource: Resource,
    /// Compiled at the first write: an API that only reads pays nothing for it.
    schema: OnceLock<Schema>,
}

/// Where a kind's schema comes from.
pub(crate) enum SchemaSource {
    /// The published type.
    Published(fn(&mut SchemaGenerator) -> JsonSchema),
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

    pub(crate) fn schema(&self) -> &Schema {
        self.schema.get_or_init(|| match &self.source {
            SchemaSource::Published(generate) => Schema::published(*generate),
            SchemaSource::Definition(document) => Schema::definition(document),
        })
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
            )
        })
    }

    /// Whether an update may leave out `metadata.resourceVersion`.
    pub(crate) fn allows_unconditional_update(&self) -> bool {
        use Builtin as B;
        let needs_version = |builtin| {
            matches!(
                builtin,
                B::Lease | B::CustomResourceDefinition | B::PodDisruptionBudget | B::VolumeAttachment | B::CsiDriver | B::CsiNode
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

/// The kinds, cheap to clone.
#[derive(Clone, Debug)]
pub struct Registry(Arc<Vec<Arc<Kind>>>);

impl Registry {
    /// The kinds of Kubernetes itself that this API serves.
    pub fn builtin() -> Self {
        Self(Arc::new(builtin::kinds().map(Arc::new).collect()))
    }

    /// These kinds and, for each served version, those that the definitions describe.
    #[must_use]
    pub fn with_crds(self, definitions: &[CustomResourceDefinition]) -> Self {
        let defined = definitions.iter().flat_map(crd::kinds).map(Arc::new);
        Self(Arc::new(self.0.iter().cloned().chain(defined).collect()))
    }

    /// All kinds, the built-in ones first.
    pub fn kinds(&self) -> &[Arc<Kind>] {
        &self.0
    }

    /// The kind at `/apis/<group>/<version>/<plural>`.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.0.iter().find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
    }

    /// The kinds of one group in one version.
    pub(crate) fn group_version<'a>(&'a self, group: &'a str, version: &'a str) -> impl Iterator<Item = &'a Arc<Kind>> {
        self.0.iter().filter(move |kind| kind.group == group && kind.version == version)
    }

    /// Every (group, version), each once, in the order of appearance.
    pub(crate) fn group_versions(&self) -> Vec<(&str, &str)> {
        let mut all = Vec::new();
        for kind in self.0.iter() {
            let pair = (kind.group.as_str(), kind.version.as_str());
            if !all.contains(&pair) {
                all.push(pair);
            }
        }
        all
    }
}
