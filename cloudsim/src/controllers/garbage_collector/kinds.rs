//! The served kinds whose objects can be deleted, and their APIs.

use std::sync::Arc;

use clock::HashMap;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    core::PartialObjectMeta,
    discovery::{Discovery, Scope, verbs},
};
use parking_lot::RwLock;

use super::graph::{KindId, Node};

/// A served kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServedKind {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
}

/// Returns every kind whose objects can be listed, watched and deleted.
pub(crate) async fn list_served(client: &Client) -> Result<Vec<ServedKind>, kube::Error> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await?;
    let resources = discovery
        .groups()
        .flat_map(|group| group.recommended_resources());
    let usable = resources.filter(|(_, capabilities)| {
        [verbs::LIST, verbs::WATCH, verbs::DELETE]
            .iter()
            .all(|verb| capabilities.supports_operation(verb))
    });
    let kind =
        |(resource, capabilities): (ApiResource, kube::discovery::ApiCapabilities)| ServedKind {
            resource,
            namespaced: capabilities.scope == Scope::Namespaced,
        };
    Ok(usable.map(kind).collect())
}

/// The kinds with their numbers. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Kinds(Arc<RwLock<Table>>);

#[derive(Default)]
struct Table {
    kinds: HashMap<KindId, ServedKind>,
    /// By group and kind: a reference may name another version.
    numbers: HashMap<(String, String), KindId>,
    /// The next number. Numbers are not reused: late messages of a removed kind must not be taken for another's.
    next: KindId,
}

/// The difference between two discoveries.
pub(super) struct Changes {
    pub(super) new: Vec<(KindId, ServedKind)>,
    pub(super) gone: Vec<KindId>,
}

impl Kinds {
    /// Replaces the served kinds. A kind that is served in another way counts as removed and added.
    pub(super) fn update(&self, served: Vec<ServedKind>) -> Changes {
        let mut table = self.0.write();
        let gone = table
            .kinds
            .iter()
            .filter(|(_, kind)| !served.contains(kind));
        let gone: Vec<_> = gone.map(|(number, _)| *number).collect();
        table.kinds.retain(|number, _| !gone.contains(number));
        table.numbers.retain(|_, number| !gone.contains(number));
        let mut new = Vec::new();
        for kind in served {
            let key = (kind.resource.group.clone(), kind.resource.kind.clone());
            if !table.numbers.contains_key(&key) {
                let number = table.next;
                table.next += 1;
                table.numbers.insert(key, number);
                table.kinds.insert(number, kind.clone());
                new.push((number, kind));
            }
        }
        Changes { new, gone }
    }

    /// Returns the kind of an owner reference.
    pub(super) fn find(&self, api_version: &str, kind: &str) -> Option<ServedKind> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let table = self.0.read();
        let number = table.numbers.get(&(group.to_owned(), kind.to_owned()))?;
        table.kinds.get(number).cloned()
    }

    /// Returns the API of an object.
    pub(super) fn api(
        &self,
        client: &Client,
        node: &Node,
    ) -> Option<Api<PartialObjectMeta<DynamicObject>>> {
        let kind = self.0.read().kinds.get(&node.kind).cloned()?;
        Some(api(client, &kind, &node.namespace))
    }
}

/// Returns the API of a kind's objects in a namespace, with their metadata only.
pub(super) fn api(
    client: &Client,
    kind: &ServedKind,
    namespace: &str,
) -> Api<PartialObjectMeta<DynamicObject>> {
    if kind.namespaced {
        Api::namespaced_with(client.clone(), namespace, &kind.resource)
    } else {
        Api::all_with(client.clone(), &kind.resource)
    }
}
