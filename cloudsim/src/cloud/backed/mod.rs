//! A cloud before the API server of a cluster that exists: it keeps nothing itself, so that any number of replicas are one cloud.
//!
//! In: a cluster's address and what it lets this cloud do. Out: a client that everything else works with, as with that of the API of its own.

mod calls;
mod crds;
mod ends;
mod health;
mod leader;
mod rights;
mod sessions;

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, Client, Config, client::ClientBuilder};
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;
use tower::util::option_layer;
use tracing::info;
use wire::enroll::pem_certificate;

pub(super) use self::health::Health;
pub(crate) use self::leader::Leading;
use self::leader::{Election, Other};
pub use self::{
    calls::Calls,
    crds::CrdError,
    leader::LEASE,
    rights::{RULES, Right, RightsError, Rules},
    sessions::of_all_replicas,
};
use super::metrics::Metrics;
use crate::{
    controllers::{events::Recorder, manager, workloads::Cluster},
    pki::{JoinToken, JoinTokens, NAMESPACE, NodeCertificates, Pki, PkiError},
    sessions::Sessions,
    tasks::Tasks,
};

/// The cluster says who it is within this.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// A connection to the API server is made within this.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The cluster's own authority, as it stands in every namespace.
const ROOT_CA: (&str, &str) = ("kube-root-ca.crt", "ca.crt");

/// How a cluster is reached, and as what.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Its API server, and who this cloud is there.
    pub config: Config,
    /// What all replicas of this cloud are called together. Two of different names do not serve one cluster.
    pub installation: String,
    /// What this replica is called; no other one may be called so.
    pub replica: String,
    /// Whether KubeEdge's kinds are made where the cluster lacks them.
    pub install_crds: bool,
    /// The port for health and metrics, 0 for any; `None`: they are not served.
    pub health_port: Option<u16>,
    /// Where calls of the cluster's API are noted.
    pub calls: Option<Calls>,
}

impl ClusterOptions {
    /// The cluster of this configuration, with everything else as it is without further words.
    pub fn new(config: Config, replica: &str) -> Self {
        Self {
            config,
            installation: "cloudsim".to_owned(),
            replica: replica.to_owned(),
            install_crds: true,
            health_port: None,
            calls: None,
        }
    }
}

/// Why a cluster cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// Whoever answers cannot be known.
    #[error(
        "the kubeconfig says insecure-skip-tls-verify: this cloud does not talk to a cluster whose certificate it cannot verify; give \
         certificate-authority-data"
    )]
    Unverified,
    /// The client cannot be made.
    #[error("the cluster at {server} cannot be reached with what the kubeconfig says")]
    Client {
        /// Its address.
        server: String,
        /// Why.
        source: kube::Error,
    },
    /// It does not answer, or refuses.
    #[error(
        "the cluster at {server} does not answer as it should; check that it runs, and the context, file and credentials of --kube-context and \
         --cluster-kubeconfig"
    )]
    NoAnswer {
        /// Its address.
        server: String,
        /// Why.
        source: kube::Error,
    },
    /// It does not answer at all.
    #[error("the cluster at {server} has not answered in {} s; check that it runs, and the context of --kube-context", ANSWER_TIMEOUT.as_secs())]
    Silent {
        /// Its address.
        server: String,
    },
    /// The namespace for keys is missing.
    #[error(
        "the cluster has no namespace {NAMESPACE}, where the keys of this cloud are kept; make it with `kubectl create namespace {NAMESPACE}`"
    )]
    NoNamespace,
    /// Not everything is allowed that must be.
    #[error(transparent)]
    Rights(#[from] RightsError),
    /// KubeEdge's kinds are not served.
    #[error(transparent)]
    Crds(#[from] CrdError),
    /// It serves this cluster already.
    #[error(
        "another cloudsim, installation {installation:?}, serves this cluster: its replica {holder} holds Lease {NAMESPACE}/{LEASE}; end it first, \
         or start this one as a replica of it with --installation {installation}"
    )]
    Another {
        /// Its name.
        installation: String,
        /// The replica that leads.
        holder: String,
    },
    /// The API refused something at the start.
    #[error("the cluster refused a call at the start")]
    Api(#[from] kube::Error),
    /// It has no authority to tell of.
    #[error("the cluster's authority is neither in the kubeconfig nor in ConfigMap {NAMESPACE}/{}", ROOT_CA.0)]
    NoAuthority,
}

/// A cluster that is served.
pub(super) struct Backed {
    pub(super) client: Client,
    pub(super) options: ClusterOptions,
    election: Election,
}

impl Backed {
    /// Reaches the cluster, and looks at all that must be there.
    pub(super) async fn connect(options: &ClusterOptions) -> Result<Self, ClusterError> {
        let server = options.config.cluster_url.to_string();
        if options.config.accept_invalid_certs {
            return Err(ClusterError::Unverified);
        }
        let client =
            client(options).map_err(|source| ClusterError::Client { server: server.clone(), source })?;
        match timeout(ANSWER_TIMEOUT, client.apiserver_version()).await {
            Ok(Ok(version)) => info!(server, version = version.git_version, "a cluster is served"),
            Ok(Err(source)) => return Err(ClusterError::NoAnswer { server, source }),
            Err(_) => return Err(ClusterError::Silent { server }),
        }
        rights::check(&client, options.install_crds).await?;
        let mut election = Election::new(&client, &options.replica, &options.installation);
        if let Some(Other { installation, holder }) = election.other().await? {
            return Err(ClusterError::Another { installation, holder });
        }
        crds::ensure(&client, options.install_crds).await?;
        Ok(Self { client, options: options.clone(), election })
    }

    /// Keys and the join token: those that stand, made where they are missing.
    pub(super) async fn own_objects(&self, names: &[String]) -> Result<(Pki, String), ClusterOrPki> {
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

    /// Who may make namespaces need not be told to; the role of this cloud does not let it.
    async fn make_namespace(&self) -> Result<(), ClusterError> {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(NAMESPACE.to_owned());
        match Api::all(self.client.clone()).create(&Default::default(), &namespace).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 403 => Err(ClusterError::NoNamespace),
            Err(error) => Err(error.into()),
        }
    }

    /// The cluster's own authority (PEM), which pods verify its API server by.
    pub(super) async fn root_ca(&self) -> Result<String, ClusterError> {
        if let Some(roots) = self.options.config.root_cert.as_ref().filter(|roots| !roots.is_empty()) {
            return Ok(roots.iter().map(|der| pem_certificate(der)).collect());
        }
        let (name, field) = ROOT_CA;
        let found = Api::<ConfigMap>::namespaced(self.client.clone(), NAMESPACE).get_opt(name).await?;
        let root = found.and_then(|map| map.data).and_then(|mut data| data.remove(field));
        root.ok_or(ClusterError::NoAuthority)
    }

    /// Which certificates count, and the uses of tokens.
    pub(super) fn records(&self) -> (NodeCertificates, JoinTokens) {
        (NodeCertificates::in_cluster(&self.client), JoinTokens::in_cluster(&self.client))
    }

    pub(super) fn leading(&self) -> Leading {
        self.election.leading()
    }

    /// Whether the cluster's API server has answered when it was last asked.
    pub(super) fn reached(&self) -> watch::Receiver<bool> {
        self.election.reached()
    }

    /// Starts what is to be done once for the cluster, and what ends sessions that another replica has ended.
    pub(super) fn spawn(
        self,
        (events, metrics): (&Recorder, Metrics),
        (certificates, sessions): (&NodeCertificates, &Sessions),
        tasks: &Tasks,
        stop: &CancellationToken,
    ) {
        let leading = self.election.leading();
        let (client, events) = (self.client.clone(), events.clone());
        let policy = leading.run(stop.child_token(), move |term| {
            let cluster = Cluster::new(client.clone(), events.clone()).counted_in(metrics.queues.clone());
            manager::run_kubeedges(cluster, term)
        });
        tasks.spawn("serviceaccountaccess", policy);
        let ends = ends::run(self.client.clone(), certificates.clone(), sessions.clone(), stop.child_token());
        tasks.spawn("ends of certificates", ends);
        let replica = self.options.replica.clone();
        let told = sessions::run(self.client.clone(), replica, sessions.clone(), stop.child_token());
        tasks.spawn("sessions of this replica", told);
        tasks.spawn("election", self.election.run(stop.child_token()));
    }
}

/// What goes wrong with keys in a cluster.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClusterOrPki {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Pki(#[from] PkiError),
}

fn client(options: &ClusterOptions) -> Result<Client, kube::Error> {
    // what the server has no time for (429, 503) is asked again, as it says or after longer and longer pauses
    let mut config = options.config.clone();
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.default_retry = true;
    let builder = ClientBuilder::try_from(config)?;
    Ok(builder.with_layer(&option_layer(options.calls.clone())).build())
}

/// Whether nodes are taken, for [`Health`].
pub(super) fn readiness() -> (watch::Sender<bool>, watch::Receiver<bool>) {
    watch::channel(false)
}
