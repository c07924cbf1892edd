//! The kinds of Kubernetes itself.

use std::sync::OnceLock;

use k8s_openapi::{
    api::{coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    schemars::{JsonSchema, Schema, SchemaGenerator},
};

use super::{Kind, SchemaSource};
use crate::store::Resource;

/// The kinds with rules of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Builtin {
    Namespace,
    Node,
    Pod,
    ConfigMap,
    Secret,
    ServiceAccount,
    Event,
    Service,
    Endpoints,
    Lease,
    EndpointSlice,
    CustomResourceDefinition,
}

pub(super) fn kinds() -> impl Iterator<Item = Kind> {
    use Builtin as B;
    [
        core::<core::Namespace>(B::Namespace, "Namespace", "namespaces").short("ns").cluster().with_status(),
        core::<core::Node>(B::Node, "Node", "nodes").short("no").cluster().with_status(),
        core::<core::Pod>(B::Pod, "Pod", "pods").short("po").category("all").with_status(),
        core::<core::ConfigMap>(B::ConfigMap, "ConfigMap", "configmaps").short("cm"),
        core::<core::Secret>(B::Secret, "Secret", "secrets"),
        core::<core::ServiceAccount>(B::ServiceAccount, "ServiceAccount", "serviceaccounts").short("sa"),
        core::<core::Event>(B::Event, "Event", "events").short("ev"),
        core::<core::Service>(B::Service, "Service", "services").short("svc").category("all").with_status(),
        core::<core::Endpoints>(B::Endpoints, "Endpoints", "endpoints").short("ep"),
        core::<coordination::Lease>(B::Lease, "Lease", "leases").in_group("coordination.k8s.io"),
        core::<discovery::EndpointSlice>(B::EndpointSlice, "EndpointSlice", "endpointslices")
            .in_group("discovery.k8s.io"),
        core::<CustomResourceDefinition>(
            B::CustomResourceDefinition,
            "CustomResourceDefinition",
            "customresourcedefinitions",
        )
        .in_group("apiextensions.k8s.io")
        .short("crd")
        .short("crds")
        .category("api-extensions")
        .cluster()
        .with_status(),
    ]
    .into_iter()
}

fn core<T: JsonSchema>(builtin: Builtin, kind: &str, plural: &str) -> Kind {
    Kind {
        group: String::new(),
        version: "v1".into(),
        kind: kind.into(),
        plural: plural.into(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        status: false,
        builtin: Some(builtin),
        columns: Vec::new(),
        source: SchemaSource::Published(generate::<T>),
        resource: Resource::new("", plural),
        schema: OnceLock::new(),
    }
}

fn generate<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

impl Kind {
    fn in_group(mut self, group: &str) -> Self {
        self.resource = Resource::new(group, &self.plural);
        self.group = group.into();
        self
    }

    fn short(mut self, name: &str) -> Self {
        self.short_names.push(name.into());
        self
    }

    fn category(mut self, name: &str) -> Self {
        self.categories.push(name.into());
        self
    }

    fn cluster(mut self) -> Self {
        self.namespaced = false;
        self
    }

    fn with_status(mut self) -> Self {
        self.status = true;
        self
    }
}
