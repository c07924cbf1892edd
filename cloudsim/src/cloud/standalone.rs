//! The cloud that is a cluster itself: an API over a store of its own, and a cluster's controllers.

use std::{net::SocketAddr, path::Path, sync::Arc};

use apiserver::{Builder, FrontProxy};
use kube::Client;
use kubeapi::{
    Api,
    serve::{HandlerService, Server},
};
use objectstore::{
    LogLimits, MemoryStore, Resource, Seal, SealError, SqliteOptions, SqliteStore, Store, StoreLock,
};

use super::{DATABASE, Options, StartError, metrics::Metrics, recreated};
use crate::{
    admin::{Admin, ApiWithAdmin, UserApi},
    admission,
    component_statuses::ComponentStatuses,
    controllers::{
        api_services,
        certificates::{self, Approver, Signer},
        events::Recorder,
        kubernetes_service,
        manager::{self, ControllerName},
        namespace_defaults, node_lifecycle, scheduler, volume_provisioner,
        workloads::Shared,
    },
    kinds,
    kubeconfig::{self, Credentials, Entries},
    pki::{self, JoinToken, JoinTokens, NodeCertificates, Pki, PkiError, ServiceAccountTokens},
    resource_metrics::{self, ResourceMetrics},
    sessions::Sessions,
    streams::Tunnels,
    tasks::Tasks,
};

/// The API and its store.
pub(super) struct Standalone {
    pub(super) store: Arc<dyn Store>,
    /// The lock of the data directory, if there is one.
    lock: Option<StoreLock>,
    api: Api,
    pub(super) client: Client,
    /// A client whose lists fail if one of their objects is damaged: for controllers, which take an object that is not listed for deleted.
    pub(super) complete: Client,
    /// A client that stored policies and webhooks cannot block: one that refuses everything can still be deleted once the cloud runs.
    pub(super) own: Client,
    accounts: Arc<ServiceAccountTokens>,
    /// How the API identifies itself to other API servers.
    front_proxy: FrontProxy,
    usage: Option<ResourceMetrics>,
}

impl Standalone {
    /// Opens the store and builds the API over it.
    pub(super) async fn open(
        options: &Options,
        metrics: &Metrics,
        sessions: &Sessions,
    ) -> Result<Self, StartError> {
        let (store, lock) = open_store(options).await?;
        recreated::remove_damaged(&store).await?;
        let accounts = Arc::new(ServiceAccountTokens::new(options.max_token_lifetime));
        let tunnels = options
            .tunnel_port
            .map(|_| Arc::new(sessions.tunnels().clone()));
        let usage = tunnels
            .clone()
            .map(|tunnels| ResourceMetrics::new(Arc::clone(&store), tunnels));
        let front_proxy = FrontProxy::default();
        let api = with_nodes(
            api(options, &store, &accounts, metrics).front_proxy(front_proxy.clone()),
            tunnels,
            usage.as_ref(),
        )
        .build();
        let (client, complete) = (api.client("default"), api.complete_client("default"));
        let own = api.unreviewed_client("default");
        Ok(Self {
            store,
            lock,
            api,
            client,
            complete,
            own,
            accounts,
            front_proxy,
            usage,
        })
    }

    /// Makes the required namespaces, keys and tokens.
    pub(super) async fn ensure_own_objects(
        &self,
        options: &Options,
    ) -> Result<(Pki, String), StartError> {
        ensure_own_objects(&self.own, options, &self.accounts, &self.front_proxy).await
    }

    /// Returns the records of nodes' certificates and of tokens' uses.
    pub(super) fn records(&self) -> (NodeCertificates, JoinTokens) {
        (
            NodeCertificates::new(Arc::clone(&self.store)),
            JoinTokens::new(Arc::clone(&self.store)),
        )
    }

    /// Binds the API server, and returns a kubeconfig with all rights, and its entries in the files of the options.
    pub(super) async fn bind(
        &self,
        options: &Options,
        admin: Admin,
        pki: &Pki,
    ) -> Result<
        (
            Server<HandlerService<ApiWithAdmin>>,
            String,
            Option<Entries>,
        ),
        StartError,
    > {
        let endpoints = HandlerService(ApiWithAdmin {
            api: UserApi::Own(self.api.service()),
            admin,
        });
        let at = SocketAddr::new(options.address, options.api_port);
        let server = Server::bind(at, Some(pki::api_tls(pki.server())?), endpoints)
            .await
            .map_err(|source| StartError::Bind {
                server: "API",
                option: "--api-port",
                source,
            })?;
        let port = server.local_addr().port();
        kubernetes_service::ensure(&self.own, port, &options.names).await?;
        let credentials = credentials(options, port, pki)?;
        let kubeconfig = credentials.text()?;
        Ok((
            server,
            kubeconfig,
            merge_kubeconfig(options, credentials).await?,
        ))
    }

    /// Starts the cluster controllers that are switched on.
    pub(super) async fn spawn(
        self,
        options: &Options,
        (events, metrics): (&Recorder, Metrics),
        (pki, sessions): (&Pki, &Sessions),
        tasks: &Tasks,
    ) -> Result<Option<StoreLock>, StartError> {
        if let Some(usage) = self.usage {
            resource_metrics::ensure_role(&self.own).await?;
            tasks.spawn("metrics.k8s.io", usage.run(tasks.child_token()));
        }
        let clients = Clients {
            any: &self.client,
            complete: &self.complete,
        };
        spawn_controllers(options, clients, (events, metrics), (pki, sessions), tasks);
        tasks.spawn("store", watch_store(self.store, tasks.clone()));
        Ok(self.lock)
    }
}

/// Builds the API over the store.
fn api(
    options: &Options,
    store: &Arc<dyn Store>,
    accounts: &Arc<ServiceAccountTokens>,
    metrics: &Metrics,
) -> Builder {
    let api = apiserver::builder(Arc::clone(store))
        .registry(kinds::registry())
        .stored_only(kinds::STORED_ONLY);
    let api = api
        .token_issuer(accounts.clone())
        .admission(Arc::new(admission::KubeEdgeAdmission));
    let components = Arc::new(ComponentStatuses::new(Arc::clone(store)));
    api.computed(components)
        .metrics(metrics.source())
        .rbac(options.rbac)
}

/// Makes the required namespaces, keys and tokens.
async fn ensure_own_objects(
    own: &Client,
    options: &Options,
    accounts: &ServiceAccountTokens,
    front_proxy: &FrontProxy,
) -> Result<(Pki, String), StartError> {
    namespace_defaults::ensure_initial(own).await?;
    if options
        .controllers
        .is_on(ControllerName::PersistentVolumeProvisioner)
    {
        volume_provisioner::ensure_class(own).await?;
    }
    accounts.set_key(pki::ensure_accounts_key(own).await?);
    let names = [&options.names[..], &kubernetes_service::names()].concat();
    let pki = Pki::ensure(own, &names).await?;
    let proxies = pki::ensure_front_proxy(own).await?;
    let (certificate, key) = proxies
        .sign_front_proxy(clock::system_now())
        .map_err(PkiError::from)?;
    front_proxy.set(certificate, key);
    pki::publish_client_ca(own, &pki.ca_pem(), &proxies).await?;
    let token = JoinToken::renew(own, pki.ca()).await?;
    Ok((pki, token))
}

/// Adds to the API what comes from nodes through their tunnels, if there are any.
fn with_nodes(
    mut api: Builder,
    tunnels: Option<Arc<Tunnels>>,
    usage: Option<&ResourceMetrics>,
) -> Builder {
    if let Some(tunnels) = tunnels {
        api = api.node_streams(tunnels);
    }
    if let Some(usage) = usage {
        api = api.computed(Arc::new(usage.clone()));
    }
    api
}

/// Issues what a client needs to reach the API with all rights.
fn credentials(options: &Options, port: u16, pki: &Pki) -> Result<Credentials, StartError> {
    let primary = options.names.first().ok_or(StartError::NoName)?;
    let (certificate, key) = pki.sign_admin()?;
    let server = format!("https://{}:{port}", kubeconfig::in_url(primary));
    Ok(Credentials::new(
        server,
        pki.ca().cert_der(),
        &certificate,
        &key,
    ))
}

/// Merges the credentials into the kubeconfigs of the options. They end with a cloud that keeps nothing.
async fn merge_kubeconfig(
    options: &Options,
    credentials: Credentials,
) -> Result<Option<Entries>, StartError> {
    let Some(destination) = options.kubeconfig.clone() else {
        return Ok(None);
    };
    let is_temporary = options.data_dir.is_none();
    let merged = clock::spawn_blocking(move || {
        let mut entries = destination.merge(&credentials)?;
        // also removed if nobody waits any more
        if is_temporary {
            entries.make_temporary();
        }
        Ok::<_, kubeconfig::KubeconfigError>(entries)
    });
    Ok(Some(merged.await.map_err(StartError::Interrupted)??))
}

/// The clients of controllers.
struct Clients<'a> {
    any: &'a Client,
    /// For those that take an object that is not listed for deleted.
    complete: &'a Client,
}

/// Starts the controllers of a cluster's scheduler and controller manager that are switched on.
fn spawn_controllers(
    options: &Options,
    Clients {
        any: client,
        complete,
    }: Clients<'_>,
    (events, metrics): (&Recorder, Metrics),
    (pki, sessions): (&Pki, &Sessions),
    tasks: &Tasks,
) {
    let is_on = |controller| options.controllers.is_on(controller);
    let given = namespace_defaults::NamespaceDefaults {
        account: is_on(ControllerName::ServiceAccount),
        root_ca: is_on(ControllerName::RootCaCertificatePublisher).then(|| pki.ca_pem()),
    };
    if given.account || given.root_ca.is_some() {
        tasks.spawn(
            "serviceaccount and root-ca-certificate-publisher",
            namespace_defaults::run(client.clone(), given, tasks.child_token()),
        );
    }
    if is_on(ControllerName::NodeLifecycle) {
        let lifecycle = node_lifecycle::run(
            complete.clone(),
            events.clone(),
            options.lease_grace,
            tasks.child_token(),
        );
        tasks.spawn("node-lifecycle", lifecycle);
    }
    let signer = Signer {
        approves: is_on(ControllerName::CsrApproving),
        signs: is_on(ControllerName::CsrSigning),
        ca: Arc::clone(pki.ca()),
        approver: Approver {
            cloud: options.names.clone(),
            sessions: sessions.clone(),
        },
    };
    if signer.approves || signer.signs {
        tasks.spawn(
            "csrapproving and csrsigning",
            certificates::run(client.clone(), signer, tasks.child_token()),
        );
    }
    if is_on(ControllerName::CsrCleaner) {
        tasks.spawn(
            "csrcleaner",
            certificates::clean(client.clone(), tasks.child_token()),
        );
    }
    tasks.spawn(
        "apiservice-registration",
        api_services::run(client.clone(), tasks.child_token()),
    );
    let shared = Shared::new(complete.clone(), events.clone()).counted_in(metrics.queues);
    let reflectors = manager::spawn(shared, tasks, &options.controllers, tasks.shutdown());
    if is_on(ControllerName::Scheduler) {
        let metrics = metrics.scheduler;
        reflectors.start("scheduler", |cluster, stop| {
            scheduler::run(cluster, metrics, stop)
        });
    }
}

/// Reports when nothing can be written any more because the store's writer has panicked.
async fn watch_store(store: Arc<dyn Store>, tasks: Tasks) {
    let closed = tasks.shutdown().run_until_cancelled(store.closed()).await;
    if closed.is_some() {
        tasks.fail("store", "its writer has ended".into());
    }
}

/// Opens the store; with a data directory also its lock.
async fn open_store(options: &Options) -> Result<(Arc<dyn Store>, Option<StoreLock>), StartError> {
    let Some(directory) = &options.data_dir else {
        let given = options.store.clone();
        return Ok((given.unwrap_or_else(|| MemoryStore::new()), None));
    };
    let failed = |source| StartError::Directory {
        path: directory.clone(),
        source,
    };
    clock::fs::create_dir_all(directory).await.map_err(failed)?;
    let database = directory.join(DATABASE);
    let lock = StoreLock::take(&database)?;
    let options = SqliteOptions {
        seal: seal(options.key_file.as_deref())?,
        log: LogLimits::CLOUD,
        reserve: RESERVE_BYTES,
    };
    match SqliteStore::open_with(&database, options).await {
        Ok(store) => Ok((store, Some(lock))),
        Err(cause) if cause.is_damaged_file() => Err(StartError::Damaged {
            directory: directory.clone(),
            cause,
        }),
        Err(error) => Err(error.into()),
    }
}

/// The space that is held for the time when the disk is full: deletions need it for SQLite's log, which takes a megabyte, and its index.
const RESERVE_BYTES: usize = 4 << 20;

/// Returns the encryption of Secrets, which include the keys of the CA and of service accounts, and the join token.
pub fn seal(key_file: Option<&Path>) -> Result<Option<Seal>, SealError> {
    key_file
        .map(|path| Seal::from_file(path, vec![Resource::new("", "secrets")]))
        .transpose()
}
