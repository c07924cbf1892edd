//! A cloud before the API server of an existing cluster: it keeps no state itself, so any number of replicas form one cloud.
//!
//! In: the cluster's address and this cloud's credentials. Out: a client that everything else uses as it uses that of our own API.

mod crds;
mod health;
mod leader;
mod leftover_syncs;
mod observer;
mod revoked_sessions;
mod rights;
mod sessions;

use std::time::Duration;

use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, Config,
    client::{Body, ClientBuilder},
};
use tokio::{sync::watch, time::timeout};
use tower::util::{MapRequestLayer, option_layer};
use tracing::info;
use wire::enroll::pem_certificate;

pub(super) use self::health::Health;
pub(crate) use self::leader::Leading;
use self::leader::{Election, OtherInstallation};
pub use self::{
    crds::CrdError,
    leader::LEASE,
    observer::Observer,
    rights::{RULES, RequiredRules, Right, RightsError},
    sessions::of_all_replicas,
};
use super::metrics::Metrics;
use crate::{
    controllers::{events::Recorder, manager, workloads::Shared},
    peers::{PeerOptions, PeerTls, Reached, ReadPeers},
    pki::{JoinToken, JoinTokens, NAMESPACE, NodeCertificates, Pki, PkiError},
    sessions::Sessions,
    tasks::Tasks,
};

/// How long the first call to the cluster may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// How long taking the Lease may take: longer than a Lease of another installation counts whose replicas have died.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(60);
/// How long connecting to the API server may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The ConfigMap and key of the cluster's own CA, which is in every namespace.
const ROOT_CA: (&str, &str) = ("kube-root-ca.crt", "ca.crt");

/// How to reach the cluster, and the identity of this cloud.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The API server and this cloud's credentials.
    pub config: Config,
    /// The common name of this cloud's replicas. Only one installation serves a cluster.
    pub installation: String,
    /// The unique name of this replica.
    pub replica: String,
    /// Whether missing definitions of KubeEdge's kinds are created.
    pub install_crds: bool,
    /// Whether NodeGroups and EdgeApplications have their controllers here, unless KubeEdge's ControllerManager runs in the cluster.
    pub node_groups: bool,
    /// The port for health and metrics, 0 for any free one; `None` if they are not served.
    pub health_port: Option<u16>,
    /// The port of `metrics.k8s.io` for the cluster's API server, 0 for any free one; `None` if it is not served.
    pub metrics_api_port: Option<u16>,
    /// The port of the live page, which passes on requests with the tokens of its users; 0 for any free one, `None` if it is not served.
    pub page_port: Option<u16>,
    /// How other replicas reach this one; `None` if they do not.
    pub peer: Option<PeerOptions>,
    /// Sees the requests to the cluster's API.
    pub observer: Option<Observer>,
}

impl ClusterOptions {
    /// Creates options with defaults for everything else.
    pub fn new(config: Config, replica: &str) -> Self {
        Self {
            config,
            installation: "cloudsim".to_owned(),
            replica: replica.to_owned(),
            install_crds: true,
            node_groups: true,
            health_port: None,
            metrics_api_port: None,
            page_port: None,
            peer: None,
            observer: None,
        }
    }
}

/// The cluster cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The server cannot be authenticated.
    #[error(
        "the kubeconfig has insecure-skip-tls-verify, but cloudsim always verifies the cluster's certificate; set \
         certificate-authority-data instead"
    )]
    Unverified,
    /// The client cannot be built.
    #[error("cannot reach the cluster at {server} with this kubeconfig")]
    Client {
        /// The address of the cluster.
        server: String,
        /// The client's error.
        source: kube::Error,
    },
    /// The first call failed.
    #[error(
        "no valid response from the cluster at {server}; check that it runs, and the context, file and credentials of --kube-context \
         and \
         --cluster-kubeconfig"
    )]
    NoAnswer {
        /// The address of the cluster.
        server: String,
        /// The API's error.
        source: kube::Error,
    },
    /// A call at the start was not answered.
    #[error(
        "the cluster at {server} did not respond in time; check that it runs, and the context of --kube-context"
    )]
    Silent {
        /// The address of the cluster.
        server: String,
    },
    /// The namespace for keys does not exist.
    #[error(
        "the cluster has no namespace {NAMESPACE}, where this cloud stores its keys; create it with `kubectl create namespace {NAMESPACE}`"
    )]
    NoNamespace,
    /// Rights are missing.
    #[error(transparent)]
    Rights(#[from] RightsError),
    /// KubeEdge's kinds are not served.
    #[error(transparent)]
    Crds(#[from] CrdError),
    /// Another installation serves the cluster.
    #[error(
        "another cloudsim, installation {installation:?}, serves this cluster: its replica {holder} holds Lease {NAMESPACE}/{LEASE}; \
         stop it first, \
         or start this one as a replica of it with --installation {installation}"
    )]
    Another {
        /// The name of the installation.
        installation: String,
        /// Its replica that leads.
        holder: String,
    },
    /// An API call at the start failed.
    #[error("the cluster refused a call during startup")]
    Api(#[from] kube::Error),
    /// The cluster publishes no CA.
    #[error("the cluster's CA certificate is neither in the kubeconfig nor in ConfigMap {NAMESPACE}/{}", ROOT_CA.0)]
    NoAuthority,
}

/// A cloud that serves a cluster.
pub(super) struct Backed {
    pub(super) client: Client,
    pub(super) options: ClusterOptions,
    /// Where other replicas reach this one, once it is known.
    pub(super) reached: Reached,
    election: Election,
}

impl Backed {
    /// Connects to the cluster and checks the preconditions.
    pub(super) async fn connect(options: &ClusterOptions) -> Result<Self, ClusterError> {
        let server = options.config.cluster_url.to_string();
        if options.config.accept_invalid_certs {
            return Err(ClusterError::Unverified);
        }
        let client = client(options).map_err(|source| ClusterError::Client {
            server: server.clone(),
            source,
        })?;
        match timeout(ANSWER_TIMEOUT, client.apiserver_version()).await {
            Ok(Ok(version)) => info!(
                server,
                version = version.git_version,
                "connected to the API server of the cluster"
            ),
            Ok(Err(source)) => return Err(ClusterError::NoAnswer { server, source }),
            Err(_) => return Err(ClusterError::Silent { server }),
        }
        rights::check(&client, options).await?;
        let mut election = Election::new(&client, &options.replica, &options.installation);
        if let Some(OtherInstallation {
            installation,
            holder,
        }) = election.other().await?
        {
            return Err(ClusterError::Another {
                installation,
                holder,
            });
        }
        crds::ensure(&client, options.install_crds).await?;
        Ok(Self {
            client,
            options: options.clone(),
            reached: Reached::default(),
            election,
        })
    }

    /// Takes the Lease for this installation, before anything is served.
    pub(super) async fn claim(&mut self) -> Result<(), ClusterError> {
        match timeout(CLAIM_TIMEOUT, self.election.claim()).await {
            Ok(claimed) => match claimed? {
                None => Ok(()),
                Some(OtherInstallation {
                    installation,
                    holder,
                }) => Err(ClusterError::Another {
                    installation,
                    holder,
                }),
            },
            Err(_) => Err(ClusterError::Silent {
                server: self.options.config.cluster_url.to_string(),
            }),
        }
    }

    /// Returns the keys and the join token, and makes missing ones.
    pub(super) async fn ensure_own_objects(
        &self,
        names: &[String],
    ) -> Result<(Pki, String), ClusterOrPki> {
        let pki = match Pki::ensure_shared(&self.client, names).await {
            Err(PkiError::Api(kube::Error::Api(status))) if status.code == 404 => {
                self.make_namespace().await?;
                Pki::ensure_shared(&self.client, names).await?
            }
            made => made?,
        };
        let token = JoinToken::ensure(&self.client, pki.ca()).await?;
        Ok((pki, token))
    }

    /// Creates the namespace if it is missing and that is allowed; the role of this cloud does not allow it.
    async fn make_namespace(&self) -> Result<(), ClusterError> {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(NAMESPACE.to_owned());
        match Api::all(self.client.clone())
            .create(&Default::default(), &namespace)
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 403 => Err(ClusterError::NoNamespace),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the cluster's own CA (PEM), with which pods verify its API server.
    pub(super) async fn root_ca(&self) -> Result<String, ClusterError> {
        if let Some(roots) = self
            .options
            .config
            .root_cert
            .as_ref()
            .filter(|roots| !roots.is_empty())
        {
            return Ok(roots.iter().map(|der| pem_certificate(der)).collect());
        }
        let (name, field) = ROOT_CA;
        let found = Api::<ConfigMap>::namespaced(self.client.clone(), NAMESPACE)
            .get_opt(name)
            .await?;
        let root = found
            .and_then(|map| map.data)
            .and_then(|mut data| data.remove(field));
        root.ok_or(ClusterError::NoAuthority)
    }

    /// Returns the records of nodes' certificates and of tokens' uses.
    pub(super) fn records(&self) -> (NodeCertificates, JoinTokens) {
        (
            NodeCertificates::in_cluster(&self.client),
            JoinTokens::in_cluster(&self.client),
        )
    }

    /// Returns the other replicas, if this one is to reach them and to be reached.
    pub(super) async fn peering(
        &self,
    ) -> Result<Option<(PeerOptions, PeerTls, ReadPeers)>, PkiError> {
        let Some(options) = self.options.peer else {
            return Ok(None);
        };
        let tls = PeerTls::ensure(&self.client).await?;
        let (client, replica) = (self.client.clone(), self.options.replica.clone());
        let read: ReadPeers = Box::new(move || {
            let (client, replica) = (client.clone(), replica.clone());
            Box::pin(async move { Ok(sessions::peers(&client, &replica).await?) })
        });
        Ok(Some((options, tls, read)))
    }

    pub(super) fn leading(&self) -> Leading {
        self.election.leading()
    }

    /// Returns whether the cluster's API server answered the last call.
    pub(super) fn reachability(&self) -> watch::Receiver<bool> {
        self.election.reachability()
    }

    /// Starts what must be done once for the cluster, and what ends sessions that another replica has revoked.
    pub(super) fn spawn(
        self,
        events: &Recorder,
        metrics: Metrics,
        certificates: &NodeCertificates,
        sessions: &Sessions,
        tasks: &Tasks,
    ) {
        let leading = self.election.leading();
        let (client, events) = (self.client.clone(), events.clone());
        let (all, node_groups) = (tasks.clone(), self.options.node_groups);
        let controllers = leading.clone().run(tasks.child_token(), move |term| {
            let shared =
                Shared::new(client.clone(), events.clone()).counted_in(metrics.queues.clone());
            manager::run_kubeedges(shared, node_groups, all.clone(), term)
        });
        tasks.spawn("controllers of the leader", controllers);
        let ends = revoked_sessions::run(
            self.client.clone(),
            certificates.clone(),
            sessions.clone(),
            tasks.child_token(),
        );
        tasks.spawn("ends of certificates", ends);
        let client = self.client.clone();
        let leftovers = leading.run(tasks.child_token(), move |term| {
            leftover_syncs::run(client.clone(), term)
        });
        tasks.spawn("leftover ObjectSyncs", leftovers);
        let replica = (self.options.replica.clone(), self.reached);
        let told = sessions::run(
            self.client.clone(),
            replica,
            sessions.clone(),
            tasks.child_token(),
        );
        tasks.spawn("sessions of this replica", told);
        tasks.spawn("election", self.election.run(tasks.child_token()));
    }
}

/// An error of handling keys in a cluster.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClusterOrPki {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Pki(#[from] PkiError),
}

fn client(options: &ClusterOptions) -> Result<Client, kube::Error> {
    // requests that the server refuses for load (429, 503) are repeated, after its delay or with back-off
    let mut config = options.config.clone();
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.default_retry = true;
    let builder = ClientBuilder::try_from(config)?;
    let observer = options.observer.clone();
    let observed = observer
        .map(|observer| MapRequestLayer::new(move |request: Request<Body>| observer.see(request)));
    Ok(builder.with_layer(&option_layer(observed)).build())
}

/// Creates the flag that nodes are accepted, for [`Health`].
pub(super) fn readiness() -> (watch::Sender<bool>, watch::Receiver<bool>) {
    watch::channel(false)
}
