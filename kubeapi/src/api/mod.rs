//! [`Api`]: a store, the kinds that it serves, and a strategy.

use std::{collections::HashMap, fmt, sync::Arc};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use parking_lot::RwLock;
use serde_json::Value;

use crate::{
    computed::ComputedObjects,
    describe::{
        document::{self, Document, Documents},
        health::StoreCheckCache,
        metrics::{Metrics, MetricsSource},
    },
    node_streams::NodeStreams,
    registry::{Kind, Registry},
    streams::slots::Slots,
};
use objectstore::Store;

pub mod strategy;

use strategy::{Cache, Strategy};

/// An API over a store. Cheap to clone.
#[derive(Clone)]
pub struct Api(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    /// The kinds that are served now; custom resource definitions change them.
    registry: RwLock<Registry>,
    metrics: Metrics,
    strategy: Arc<dyn Strategy>,
    node_streams: Option<Arc<dyn NodeStreams>>,
    /// By group and plural name of the kind.
    computed: HashMap<(&'static str, &'static str), Arc<dyn ComputedObjects>>,
    slots: Slots,
    /// Made when first requested: an agent's API never needs them.
    documents: Documents,
    checked: StoreCheckCache,
}

impl Api {
    /// Makes a builder with the built-in kinds and the strategy of a [`Cache`].
    pub fn builder(store: Arc<dyn Store>) -> Builder {
        Builder {
            store,
            registry: Registry::builtin(),
            strategy: Arc::new(Cache),
            node_streams: None,
            computed: Vec::new(),
            metrics: None,
        }
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// Returns the kinds that are served now.
    pub fn registry(&self) -> Registry {
        self.0.registry.read().clone()
    }

    pub(crate) fn check_cache(&self) -> &StoreCheckCache {
        &self.0.checked
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Serves the kinds of these definitions, and of no others, beside the built-in ones. For a cache, whose definitions somebody else
    /// decides on; a whole API server does it itself.
    pub fn serve(&self, definitions: &[CustomResourceDefinition]) {
        let mut registry = self.0.registry.write();
        *registry = registry.redefined(definitions, self.0.strategy.fills_defaults_on_read());
        // under the same lock, or a document of the old kinds could be kept
        self.0.documents.forget(&registry);
    }

    pub(crate) fn strategy(&self) -> &dyn Strategy {
        &*self.0.strategy
    }

    pub(crate) fn node_streams(&self) -> Option<&Arc<dyn NodeStreams>> {
        self.0.node_streams.as_ref()
    }

    /// Returns what computes the objects of `kind`.
    pub(crate) fn computed_objects(&self, kind: &Kind) -> Option<Arc<dyn ComputedObjects>> {
        self.0
            .computed
            .get(&(kind.group.as_str(), kind.plural.as_str()))
            .cloned()
    }

    /// Returns the slots for streams to nodes.
    pub(crate) fn slots(&self) -> &Slots {
        &self.0.slots
    }

    /// Returns a document about what is served, made by `make` when it is first requested.
    pub(crate) fn document(
        &self,
        name: document::Name,
        make: impl FnOnce(&Registry) -> Option<Value>,
    ) -> Option<Document> {
        // locked until it is kept, or a document of the old kinds could be
        let registry = self.0.registry.read();
        self.0.documents.get(name, || make(&registry))
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("store", &self.0.store)
            .finish_non_exhaustive()
    }
}

/// Builds an [`Api`].
pub struct Builder {
    store: Arc<dyn Store>,
    registry: Registry,
    strategy: Arc<dyn Strategy>,
    node_streams: Option<Arc<dyn NodeStreams>>,
    computed: Vec<Arc<dyn ComputedObjects>>,
    metrics: Option<MetricsSource>,
}

impl Builder {
    /// Sets the kinds to serve.
    #[must_use]
    pub fn registry(self, registry: Registry) -> Self {
        Self { registry, ..self }
    }

    /// Sets the strategy for callers and objects.
    #[must_use]
    pub fn strategy(self, strategy: Arc<dyn Strategy>) -> Self {
        Self { strategy, ..self }
    }

    /// Sets how kubelets are reached; without it, logs, exec, attach, port-forward and `nodes/proxy` answer 501.
    #[must_use]
    pub fn node_streams(self, streams: Arc<dyn NodeStreams>) -> Self {
        Self {
            node_streams: Some(streams),
            ..self
        }
    }

    /// Adds a provider of computed objects, whose kinds are served besides those of the registry.
    #[must_use]
    pub fn computed(mut self, source: Arc<dyn ComputedObjects>) -> Self {
        self.computed.push(source);
        self
    }

    /// Sets a source of further metrics for `/metrics`; their names must differ from the API's own.
    #[must_use]
    pub fn metrics(self, source: MetricsSource) -> Self {
        Self {
            metrics: Some(source),
            ..self
        }
    }

    /// Builds the API.
    pub fn build(self) -> Api {
        let Self {
            store,
            registry,
            strategy,
            node_streams,
            computed,
            metrics,
        } = self;
        let mut kinds = Vec::new();
        let mut sources = HashMap::new();
        for source in computed {
            for kind in source.kinds() {
                sources.insert((kind.group, kind.plural), Arc::clone(&source));
                kinds.push(kind);
            }
        }
        let registry = registry.with_computed(kinds);
        Api(Arc::new(Inner {
            store,
            registry: RwLock::new(registry),
            metrics: Metrics::new(metrics),
            strategy,
            node_streams,
            computed: sources,
            slots: Slots::default(),
            documents: Documents::default(),
            checked: StoreCheckCache::default(),
        }))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}
