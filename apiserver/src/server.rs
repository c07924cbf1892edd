//! [`Server`]: the API together with the state of a whole API server.

use std::{fmt, ops::Deref, sync::Arc};

use kubeapi::{Api, Kind};
use tokio::sync::{Mutex, OnceCell, OwnedMutexGuard};

use crate::{
    admission::{Admission, WebhookTransport, configuration::ConfigurationCache},
    aggregation::{cache::AggregationCache, transport::RemoteTransport},
    token::TokenIssuer,
};

/// The state of an API server besides its store, kinds and connections.
pub(crate) struct ServerState {
    /// Whether the initial definitions are stored, and all stored ones are served.
    definitions_loaded: OnceCell<()>,
    /// Serializes decisions on definitions.
    definitions_lock: Mutex<()>,
    /// Whether the default roles of every cluster are stored.
    default_roles_stored: OnceCell<()>,
    token_issuer: Option<Arc<dyn TokenIssuer>>,
    admission: Option<Arc<dyn Admission>>,
    admission_configuration: ConfigurationCache,
    webhooks: Arc<dyn WebhookTransport>,
    remote_transport: Arc<dyn RemoteTransport>,
    aggregation: AggregationCache,
    rbac: bool,
    stored_only: Vec<(String, String)>,
    /// Serializes quota checks: an admitted object is stored before the next one is checked.
    quota_lock: Arc<Mutex<()>>,
}

/// The settings of [`ServerState`].
pub(crate) struct Settings {
    pub(crate) token_issuer: Option<Arc<dyn TokenIssuer>>,
    pub(crate) admission: Option<Arc<dyn Admission>>,
    pub(crate) webhooks: Arc<dyn WebhookTransport>,
    pub(crate) remote_transport: Arc<dyn RemoteTransport>,
    pub(crate) rbac: bool,
    /// Group and kind.
    pub(crate) stored_only: Vec<(String, String)>,
}

impl ServerState {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            definitions_loaded: OnceCell::default(),
            definitions_lock: Mutex::default(),
            default_roles_stored: OnceCell::default(),
            token_issuer: settings.token_issuer,
            admission: settings.admission,
            admission_configuration: ConfigurationCache::default(),
            webhooks: settings.webhooks,
            remote_transport: settings.remote_transport,
            aggregation: AggregationCache::default(),
            rbac: settings.rbac,
            stored_only: settings.stored_only,
            quota_lock: Arc::default(),
        }
    }

    /// Reports whether objects of `kind` are only stored, and no controller acts on them.
    pub(crate) fn only_stores(&self, kind: &Kind) -> bool {
        self.stored_only
            .iter()
            .any(|(group, name)| *group == kind.group && *name == kind.kind)
    }
}

/// An API with the state of its server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Server {
    api: Api,
    state: Arc<ServerState>,
}

impl Deref for Server {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.api).finish()
    }
}

impl Server {
    pub(crate) fn new(api: &Api, state: &Arc<ServerState>) -> Self {
        Self {
            api: api.clone(),
            state: Arc::clone(state),
        }
    }

    pub(crate) fn definitions_loaded(&self) -> &OnceCell<()> {
        &self.state.definitions_loaded
    }

    pub(crate) fn definitions_lock(&self) -> &Mutex<()> {
        &self.state.definitions_lock
    }

    pub(crate) fn default_roles_stored(&self) -> &OnceCell<()> {
        &self.state.default_roles_stored
    }

    pub(crate) fn token_issuer(&self) -> Option<&Arc<dyn TokenIssuer>> {
        self.state.token_issuer.as_ref()
    }

    pub(crate) fn admission(&self) -> Option<&Arc<dyn Admission>> {
        self.state.admission.as_ref()
    }

    pub(crate) fn admission_configuration(&self) -> &ConfigurationCache {
        &self.state.admission_configuration
    }

    pub(crate) fn webhooks(&self) -> &dyn WebhookTransport {
        &*self.state.webhooks
    }

    pub(crate) fn remote_transport(&self) -> &dyn RemoteTransport {
        &*self.state.remote_transport
    }

    pub(crate) fn aggregation(&self) -> &AggregationCache {
        &self.state.aggregation
    }

    pub(crate) fn enforces_rbac(&self) -> bool {
        self.state.rbac
    }

    /// Waits until no other quota is checked.
    pub(crate) async fn lock_quota(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.state.quota_lock).lock_owned().await
    }
}
