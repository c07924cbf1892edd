//! The objects of the API that the table of rules is built from, and which of their changes alter it.

use std::fmt::Debug;

use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crds::rules::{Rule, RuleEndpoint};

use super::{
    node_namespaces::{NodeMetadata, NodeNamespaces, annotation},
    table::Table,
};
use crate::controllers::informers::{Change, Informer, Reflector};

/// Lists and watches the objects of all kinds that the table is built from.
#[derive(Default)]
pub(super) struct ObjectReflectors {
    rules: Reflector<Rule>,
    endpoints: Reflector<RuleEndpoint>,
    nodes: Reflector<NodeMetadata>,
}

impl ObjectReflectors {
    /// Returns the watches of all kinds, which run until `stop`.
    pub(super) fn watches(
        &self,
        client: &Client,
        stop: &CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        let rules = self.rules.run(client.clone(), stop.child_token());
        let endpoints = self.endpoints.run(client.clone(), stop.child_token());
        let nodes = self.nodes.run(client.clone(), stop.child_token());
        async move {
            tokio::join!(rules, endpoints, nodes);
        }
    }

    /// Waits until everything has been listed.
    pub(super) async fn wait_synced(&self) -> Objects {
        Objects {
            rules: Watched::of(self.rules.wait_synced().await),
            endpoints: Watched::of(self.endpoints.wait_synced().await),
            nodes: Watched::of(self.nodes.wait_synced().await),
        }
    }
}

/// The objects of one kind, and their changes that were not read yet.
struct Watched<K> {
    all: Informer<K>,
    changes: mpsc::Receiver<Change<K>>,
}

impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static>
    Watched<K>
{
    fn of(all: Informer<K>) -> Self {
        Self {
            changes: all.listen(),
            all,
        }
    }
}

/// The objects of all kinds that the table is built from.
pub(super) struct Objects {
    rules: Watched<Rule>,
    endpoints: Watched<RuleEndpoint>,
    nodes: Watched<NodeMetadata>,
}

impl Objects {
    /// Waits for a change; returns whether it alters the table, or `None` if no more come. Cancel-safe.
    pub(super) async fn changed(&mut self) -> Option<bool> {
        clock::select! {
            // cancel-safe: a change is taken only when its arm wins
            Some(change) = self.rules.changes.recv() => {
                // the status is written by this controller alone
                Some(change.gone || change.before.is_none_or(|before| before.spec != change.object.spec))
            }
            Some(change) = self.endpoints.changes.recv() => {
                Some(change.gone || change.before.is_none_or(|before| before.spec != change.object.spec))
            }
            Some(change) = self.nodes.changes.recv() => {
                let before = change.before.as_deref().and_then(annotation);
                Some(before != annotation(&change.object).filter(|_| !change.gone))
            }
            else => None,
        }
    }

    /// Builds the table of what is there now; earlier changes need no further look.
    pub(super) fn table(&mut self) -> Table {
        while self.rules.changes.try_recv().is_ok()
            || self.endpoints.changes.try_recv().is_ok()
            || self.nodes.changes.try_recv().is_ok()
        {}
        let namespaces = NodeNamespaces::new(&self.nodes.all.all());
        Table::new(self.rules.all.all(), &self.endpoints.all.all(), namespaces)
    }
}
