//! The kinds that an API serves.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use crate::{ComputedKind, builtin_schema::Schema, store::Resource, structural_schema::Structural};

mod builtin;
mod crd;

pub(crate) use builtin::Builtin;
pub(crate) use crd::{Defined, PrinterColumn};

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
    schema: OnceLock<KindSchema>,
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

/// Where in an object its `scale` subresource has what it shows: JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) replicas: String,
    pub(crate) status_replicas: String,
    /// A selector in one text; the built-in kinds have theirs as an object.
    pub(crate) selector: Option<String>,
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

    fn same_place(&self, other: &Self) -> bool {
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

/// Brings an object into a version of its kind, whichever one it is in.
pub type Convert = fn(version: &str, object: Value) -> Value;

/// The conversions of kinds from definitions, by group and plural.
#[derive(Debug, Default)]
pub(crate) struct Conversions(Vec<(String, String, Convert)>);

impl Conversions {
    fn find(&self, group: &str, plural: &str) -> Option<Convert> {
        let mut all = self.0.iter();
        all.find(|(own, name, _)| own == group && name == plural).map(|(_, _, convert)| *convert)
    }
}

/// The kinds, cheap to clone.
#[derive(Clone, Debug)]
pub struct Registry {
    kinds: Arc<Vec<Arc<Kind>>>,
    /// The definitions that the API begins with.
    given: Arc<Vec<CustomResourceDefinition>>,
    conversions: Arc<Conversions>,
}

impl Registry {
    /// The kinds of Kubernetes itself that this API serves.
    pub fn builtin() -> Self {
        Self {
            kinds: Arc::new(builtin::kinds().map(Arc::new).collect()),
            given: Arc::default(),
            conversions: Arc::default(),
        }
    }

    /// How objects of a kind from a definition are brought from one of its versions into another: to be said before the
    /// definition. Without it they differ in `apiVersion` alone.
    #[must_use]
    pub fn with_conversion(self, group: &str, plural: &str, convert: Convert) -> Self {
        let own = [(group.to_owned(), plural.to_owned(), convert)];
        let conversions = self.conversions.0.iter().cloned().chain(own).collect();
        Self { conversions: Arc::new(Conversions(conversions)), ..self }
    }

    /// These kinds and, for each served version, those that the definitions describe. An API with [`crate::Rules::Full`] also
    /// stores the definitions when it is first called, in place of what it has of the same names.
    #[must_use]
    pub fn with_crds(self, definitions: &[CustomResourceDefinition]) -> Self {
        let defined = definitions
            .iter()
            .flat_map(|definition| crd::kinds(definition, &self.conversions, true))
            .map(Arc::new);
        let kinds = self.kinds.iter().cloned().chain(defined).collect();
        let given = self.given.iter().chain(definitions).cloned().collect();
        Self { kinds: Arc::new(kinds), given: Arc::new(given), conversions: Arc::clone(&self.conversions) }
    }

    /// These kinds and those whose objects are computed.
    pub(crate) fn with_computed(self, kinds: Vec<ComputedKind>) -> Self {
        let computed = kinds.into_iter().map(builtin::computed).map(Arc::new);
        // before what is defined
        let (own, defined): (Vec<_>, Vec<_>) =
            self.kinds.iter().cloned().partition(|kind| kind.builtin.is_some());
        let kinds = own.into_iter().chain(computed).chain(defined).collect();
        Self { kinds: Arc::new(kinds), ..self }
    }

    /// The definitions that the API begins with.
    pub(crate) fn given(&self) -> &[CustomResourceDefinition] {
        &self.given
    }

    /// The built-in kinds and those of `definitions`. What these say as before stays the same kind; the rest is retired.
    /// `fills_on_read`: objects are answered with the defaults that their schema got after they were stored.
    pub(crate) fn redefined(&self, definitions: &[CustomResourceDefinition], fills_on_read: bool) -> Self {
        let mut kinds: Vec<_> = self.kinds.iter().filter(|kind| kind.builtin.is_some()).cloned().collect();
        for definition in definitions {
            for new in crd::kinds(definition, &self.conversions, fills_on_read) {
                // a kind of Kubernetes itself goes before
                if kinds.iter().any(|kind| kind.same_place(&new)) {
                    continue;
                }
                let old = self.kinds.iter().find(|kind| kind.same_place(&new));
                let holds = |kind: &&Arc<Kind>| {
                    kind.defined.as_ref().is_some_and(|defined| defined.still_holds(definition))
                };
                kinds.push(old.filter(holds).cloned().unwrap_or_else(|| Arc::new(new)));
            }
        }
        for old in self.kinds.iter().filter(|old| !kinds.iter().any(|kind| Arc::ptr_eq(kind, old))) {
            if let Some(defined) = &old.defined {
                defined.retired.cancel();
            }
        }
        let (given, conversions) = (Arc::clone(&self.given), Arc::clone(&self.conversions));
        Self { kinds: Arc::new(kinds), given, conversions }
    }

    /// All kinds, the built-in ones first.
    pub fn kinds(&self) -> &[Arc<Kind>] {
        &self.kinds
    }

    /// The kind at `/apis/<group>/<version>/<plural>`.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.kinds.iter().find(|kind| kind.plural == plural && kind.version == version && kind.group == group)
    }

    /// The kind with rules of its own.
    pub(crate) fn of(&self, builtin: Builtin) -> Option<&Arc<Kind>> {
        self.kinds.iter().find(|kind| kind.is(builtin))
    }

    /// The kinds of one group in one version.
    pub(crate) fn group_version<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Kind>> {
        self.kinds.iter().filter(move |kind| kind.group == group && kind.version == version)
    }

    /// Every (group, version), each once, in the order of appearance.
    pub(crate) fn group_versions(&self) -> Vec<(&str, &str)> {
        let mut all = Vec::new();
        for kind in self.kinds.iter() {
            let pair = (kind.group.as_str(), kind.version.as_str());
            if !all.contains(&pair) {
                all.push(pair);
            }
        }
        all
    }
}
