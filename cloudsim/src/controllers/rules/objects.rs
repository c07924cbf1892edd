//! The objects of the API that the table of rules is built from, and which of their changes alter it.

use kube::Client;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crds::rules::{Rule, RuleEndpoint};

use super::{
    node_namespaces::{NodeMetadata, NodeNamespaces, annotation},
    table::Table,
};
use crate::controllers::informers::{Change, Informer};

/// The objects of one kind, and their changes that were not read yet.
struct Watched<K> {
    all: Informer<K>,
    changes: mpsc::Receiver<Change<K>>,
}

/// The objects of all kinds that the table is built from.
pub(super) struct Objects {
    rules: Watched<Rule>,
    endpoints: Watched<RuleEndpoint>,
    nodes: Watched<NodeMetadata>,
}

impl Objects {
    /// Listens before anything is listed, so that no change is missed.
    pub(super) fn new() -> Self {
        let (rules, endpoints, nodes) = (Informer::default(), Informer::default(), Informer::default());
        Self {
            rules: Watched { changes: rules.listen(), all: rules },
            endpoints: Watched { changes: endpoints.listen(), all: endpoints },
            nodes: Watched { changes: nodes.listen(), all: nodes },
        }
    }

    /// Returns the watches of all kinds, which run until `stop`.
    pub(super) fn watches(
        &self,
        client: &Client,
        stop: &CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        let rules = self.rules.all.clone().run(client.clone(), stop.child_token());
        let endpoints = self.endpoints.all.clone().run(client.clone(), stop.child_token());
        let nodes = self.nodes.all.clone().run(client.clone(), stop.child_token());
        async move {
            tokio::join!(rules, endpoints, nodes);
        }
    }

    /// Waits until everything has been listed.
    pub(super) async fn completed(&self) {
        self.rules.all.completed().await;
        self.endpoints.all.completed().await;
        self.nodes.all.completed().await;
    }

    /// Waits for a change; returns whether it alters the table, or `None` if no more come. Cancel-safe.
    pub(super) async fn changed(&mut self) -> Option<bool> {
        tokio::select! {
            // cancel-safe, all: a change is taken only when its arm wins
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
