//! [`Api`]: a store, the kinds that it serves, and rules.

use std::{collections::HashMap, fmt, sync::Arc};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};

use crate::{
    admission::{
        configuration::ConfigurationCache,
        plugin::Admission,
        webhook::transport::{HttpsTransport, WebhookTransport},
    },
    computed::ComputedObjects,
    document::{self, Document, Documents},
    health::StoreCheckCache,
    metrics::{Metrics, MetricsSource},
    node_streams::NodeStreams,
    registry::{Kind, Registry},
    streams::slots::Slots,
    token::TokenIssuer,
};
use objectstore::Store;

/// How an API treats the objects that it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// As the API server: objects are checked against their schema, defaulted, pruned and validated, and their namespaces must exist.
    Full,
    /// As a cache of objects that an API server has admitted: they are stored unchanged, with fields of newer versions.
    Relay,
}

/// An API over a store. Cheap to clone.
#[derive(Clone)]
pub struct Api(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    /// The kinds that are served now; custom resource definitions change them.
    registry: RwLock<Registry>,
    /// Whether the initial definitions are stored, and all stored ones are served.
    definitions_loaded: OnceCell<()>,
    /// Serializes decisions on definitions.
    definitions_lock: Mutex<()>,
    /// Whether the default roles of every cluster are stored.
    default_roles_stored: OnceCell<()>,
    metrics: Metrics,
    rules: Rules,
    token_issuer: Option<Arc<dyn TokenIssuer>>,
    admission: Option<Arc<dyn Admission>>,
    admission_configuration: ConfigurationCache,
    webhooks: Arc<dyn WebhookTransport>,
    node_streams: Option<Arc<dyn NodeStreams>>,
    /// By group and plural name of the kind.
    computed: HashMap<(&'static str, &'static str), Arc<dyn ComputedObjects>>,
    slots: Slots,
    rbac: bool,
    stored_only: Vec<(String, String)>,
    /// Serializes quota checks: an admitted object is stored before the next one is checked.
    quota_lock: Mutex<()>,
    /// Made when first requested: an agent's API never needs them.
    documents: Documents,
    checked: StoreCheckCache,
}

impl Api {
    /// Makes a builder with the built-in kinds, [`Rules::Full`] and no issuer of tokens.
    pub fn builder(store: Arc<dyn Store>) -> Builder {
        Builder {
            store,
            registry: Registry::builtin(),
            rules: Rules::Full,
            token_issuer: None,
            admission: None,
            webhooks: Arc::new(HttpsTransport),
            node_streams: None,
            computed: Vec::new(),
            rbac: false,
            stored_only: Vec::new(),
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

    pub(crate) fn definitions_loaded(&self) -> &OnceCell<()> {
        &self.0.definitions_loaded
    }

    pub(crate) fn definitions_lock(&self) -> &Mutex<()> {
        &self.0.definitions_lock
    }

    pub(crate) fn default_roles_stored(&self) -> &OnceCell<()> {
        &self.0.default_roles_stored
    }

    pub(crate) fn checked(&self) -> &StoreCheckCache {
        &self.0.checked
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Serves the kinds of these definitions, and of no others, beside the built-in ones. For an API with [`Rules::Relay`], whose
    /// definitions somebody else decides on; one with [`Rules::Full`] does it itself.
    pub fn serve(&self, definitions: &[CustomResourceDefinition]) {
        let mut registry = self.0.registry.write();
        *registry = registry.redefined(definitions, self.is_full());
        // under the same lock, or a document of the old kinds could be kept
        self.0.documents.forget(&registry);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.rules == Rules::Full
    }

    pub(crate) fn token_issuer(&self) -> Option<&Arc<dyn TokenIssuer>> {
        self.0.token_issuer.as_ref()
    }

    pub(crate) fn admission(&self) -> Option<&Arc<dyn Admission>> {
        self.0.admission.as_ref()
    }

    pub(crate) fn admission_configuration(&self) -> &ConfigurationCache {
        &self.0.admission_configuration
    }

    pub(crate) fn webhooks(&self) -> &dyn WebhookTransport {
        &*self.0.webhooks
    }

    pub(crate) fn node_streams(&self) -> Option<&Arc<dyn NodeStreams>> {
        self.0.node_streams.as_ref()
    }

    /// Returns what computes the objects of `kind`.
    pub(crate) fn computed(&self, kind: &Kind) -> Option<Arc<dyn ComputedObjects>> {
        self.0
            .computed
            .get(&(kind.group.as_str(), kind.plural.as_str()))
            .cloned()
    }

    /// Returns the slots for streams to nodes.
    pub(crate) fn slots(&self) -> &Slots {
        &self.0.slots
    }

    pub(crate) fn enforces_rbac(&self) -> bool {
        self.0.rbac
    }

    pub(crate) fn quota_lock(&self) -> &Mutex<()> {
        &self.0.quota_lock
    }

    /// Reports whether objects of `kind` are only stored, and no controller acts on them.
    pub(crate) fn only_stores(&self, kind: &Kind) -> bool {
        self.0
            .stored_only
            .iter()
            .any(|(group, name)| *group == kind.group && *name == kind.kind)
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
            .field("rules", &self.0.rules)
            .finish_non_exhaustive()
    }
}

/// Builds an [`Api`].
pub struct Builder {
    store: Arc<dyn Store>,
    registry: Registry,
    rules: Rules,
    token_issuer: Option<Arc<dyn TokenIssuer>>,
    admission: Option<Arc<dyn Admission>>,
    webhooks: Arc<dyn WebhookTransport>,
    node_streams: Option<Arc<dyn NodeStreams>>,
    computed: Vec<Arc<dyn ComputedObjects>>,
    rbac: bool,
    stored_only: Vec<(String, String)>,
    metrics: Option<MetricsSource>,
}

impl Builder {
    /// Sets the kinds to serve.
    #[must_use]
    pub fn registry(self, registry: Registry) -> Self {
        Self { registry, ..self }
    }

    /// Sets how received objects are treated.
    #[must_use]
    pub fn rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// Sets the issuer of service account tokens; without one the `token` subresource answers 501.
    #[must_use]
    pub fn token_issuer(self, issuer: Arc<dyn TokenIssuer>) -> Self {
        Self {
            token_issuer: Some(issuer),
            ..self
        }
    }

    /// Sets further admission rules, besides those of schemas and of kinds.
    #[must_use]
    pub fn admission(self, admission: Arc<dyn Admission>) -> Self {
        Self {
            admission: Some(admission),
            ..self
        }
    }

    /// Sets how admission webhooks are called; the default is HTTPS.
    #[must_use]
    pub fn webhooks(self, webhooks: Arc<dyn WebhookTransport>) -> Self {
        Self { webhooks, ..self }
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

    /// Enforces RBAC: callers are allowed what stored roles and bindings grant. Without it, only `system:masters` is served.
    #[must_use]
    pub fn rbac(self, rbac: bool) -> Self {
        Self { rbac, ..self }
    }

    /// Sets the kinds (group, kind) on which no controller acts: whoever writes an object of one is warned that it is only stored.
    #[must_use]
    pub fn stored_only<'a>(self, kinds: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let kinds = kinds
            .into_iter()
            .map(|(group, kind)| (group.to_owned(), kind.to_owned()));
        Self {
            stored_only: kinds.collect(),
            ..self
        }
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
            rules,
            token_issuer,
            admission,
            webhooks,
            node_streams,
            computed,
            rbac,
            stored_only,
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
            definitions_loaded: OnceCell::default(),
            definitions_lock: Mutex::default(),
            default_roles_stored: OnceCell::default(),
            metrics: Metrics::new(metrics),
            rules,
            token_issuer,
            admission,
            admission_configuration: ConfigurationCache::default(),
            webhooks,
            node_streams,
            computed: sources,
            slots: Slots::default(),
            rbac,
            stored_only,
            quota_lock: Mutex::default(),
            documents: Documents::default(),
            checked: StoreCheckCache::default(),
        }))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("store", &self.store)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}
