//! Builds an API server.

use std::{fmt, sync::Arc};

use kubeapi::{Api, ComputedObjects, MetricsSource, NodeStreams, Registry};
use objectstore::Store;

use crate::{
    admission::{Admission, HttpsTransport, WebhookTransport},
    aggregation::transport::{FrontProxy, RemoteTransport, TlsTransport},
    server::{ServerState, Settings},
    strategy::ServerStrategy,
    token::TokenIssuer,
};

/// Makes a builder of an API server over `store`, with the built-in kinds and no issuer of tokens.
pub fn builder(store: Arc<dyn Store>) -> Builder {
    Builder {
        api: Api::builder(store),
        settings: Settings {
            token_issuer: None,
            admission: None,
            webhooks: Arc::new(HttpsTransport),
            remote_transport: Arc::new(TlsTransport::default()),
            rbac: false,
            stored_only: Vec::new(),
        },
    }
}

/// Builds an [`Api`] that does what a whole API server does.
pub struct Builder {
    api: kubeapi::Builder,
    settings: Settings,
}

impl Builder {
    /// Sets the kinds to serve.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.api = self.api.registry(registry);
        self
    }

    /// Sets the issuer of service account tokens; without one the `token` subresource answers 501.
    #[must_use]
    pub fn token_issuer(mut self, issuer: Arc<dyn TokenIssuer>) -> Self {
        self.settings.token_issuer = Some(issuer);
        self
    }

    /// Sets further admission rules, besides those of schemas and of kinds.
    #[must_use]
    pub fn admission(mut self, admission: Arc<dyn Admission>) -> Self {
        self.settings.admission = Some(admission);
        self
    }

    /// Sets how admission and conversion webhooks are called; the default is HTTPS.
    #[must_use]
    pub fn webhooks(mut self, webhooks: Arc<dyn WebhookTransport>) -> Self {
        self.settings.webhooks = webhooks;
        self
    }

    /// Sets how the API identifies itself to other API servers, to which it forwards requests (`APIService`).
    #[must_use]
    pub fn front_proxy(mut self, front_proxy: FrontProxy) -> Self {
        self.settings.remote_transport = Arc::new(TlsTransport { front_proxy });
        self
    }

    /// Sets how other API servers are reached; the default is TLS.
    #[must_use]
    pub fn remote_transport(mut self, transport: Arc<dyn RemoteTransport>) -> Self {
        self.settings.remote_transport = transport;
        self
    }

    /// Sets how kubelets are reached; without it, logs, exec, attach, port-forward and `nodes/proxy` answer 501.
    #[must_use]
    pub fn node_streams(mut self, streams: Arc<dyn NodeStreams>) -> Self {
        self.api = self.api.node_streams(streams);
        self
    }

    /// Adds a provider of computed objects, whose kinds are served besides those of the registry.
    #[must_use]
    pub fn computed(mut self, source: Arc<dyn ComputedObjects>) -> Self {
        self.api = self.api.computed(source);
        self
    }

    /// Enforces RBAC: callers are allowed what stored roles and bindings grant. Without it, only `system:masters` is served.
    #[must_use]
    pub fn rbac(mut self, rbac: bool) -> Self {
        self.settings.rbac = rbac;
        self
    }

    /// Sets the kinds (group, kind) on which no controller acts: a client that writes such an object is warned that it is only stored.
    #[must_use]
    pub fn stored_only<'a>(mut self, kinds: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let kinds = kinds
            .into_iter()
            .map(|(group, kind)| (group.to_owned(), kind.to_owned()));
        self.settings.stored_only = kinds.collect();
        self
    }

    /// Sets a source of further metrics for `/metrics`; their names must differ from the API's own.
    #[must_use]
    pub fn metrics(mut self, source: MetricsSource) -> Self {
        self.api = self.api.metrics(source);
        self
    }

    /// Builds the API.
    pub fn build(self) -> Api {
        let state = Arc::new(ServerState::new(self.settings));
        self.api
            .strategy(Arc::new(ServerStrategy::new(state)))
            .build()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.api.fmt(f)
    }
}
