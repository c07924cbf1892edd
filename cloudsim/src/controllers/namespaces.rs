//! What every namespace has: the `default` service account and the ConfigMap with the cluster's CA, `kube-root-ca.crt`.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::{
    Api, Client, ResourceExt,
    api::{ObjectMeta, PostParams},
    runtime::{
        controller::{Action, Controller},
        watcher,
    },
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// The ConfigMap that pods mount to trust the API server.
pub const ROOT_CA: &str = "kube-root-ca.crt";
/// The namespaces of a new cluster, and KubeEdge's own.
pub const INITIAL: [&str; 5] = ["default", "kube-system", "kube-public", "kube-node-lease", "kubeedge"];
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// Creates the namespaces of a new cluster where they are missing.
pub async fn ensure_initial(client: &Client) -> Result<(), kube::Error> {
    let api = Api::<Namespace>::all(client.clone());
    for name in INITIAL {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        ensure(api.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await)?;
    }
    Ok(())
}

/// What a namespace gets.
#[derive(Clone, Debug)]
pub struct Given {
    /// The service account `default`.
    pub account: bool,
    /// The cluster's CA certificate, PEM, as [`ROOT_CA`].
    pub root_ca: Option<String>,
}

/// Runs until `shutdown`.
pub async fn run(client: Client, given: Given, shutdown: CancellationToken) {
    Controller::new(Api::<Namespace>::all(client.clone()), watcher::Config::default())
        .run(
            reconcile,
            |_, error, _| {
                warn!(error = error as &dyn std::error::Error, "a namespace could not be completed");
                Action::requeue(AFTER_ERROR)
            },
            Arc::new((client, given)),
        )
        // not kube's own graceful shutdown: begun before the first list has come, that one never ends
        .take_until(shutdown.cancelled_owned())
        .for_each(|_| async {})
        .await;
}

async fn reconcile(namespace: Arc<Namespace>, context: Arc<(Client, Given)>) -> Result<Action, kube::Error> {
    if namespace.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let (client, given) = &*context;
    let name = namespace.name_any();
    let named = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    if given.account {
        let account = ServiceAccount { metadata: named("default"), ..ServiceAccount::default() };
        ensure(Api::namespaced(client.clone(), &name).create(&PostParams::default(), &account).await)?;
    }
    if let Some(pem) = &given.root_ca {
        let data = Some([("ca.crt".to_owned(), pem.clone())].into());
        let map = ConfigMap { metadata: named(ROOT_CA), data, ..ConfigMap::default() };
        ensure(Api::namespaced(client.clone(), &name).create(&PostParams::default(), &map).await)?;
    }
    Ok(Action::await_change())
}

/// "Already there" is as good as created; "namespace not found" means that it was deleted meanwhile.
fn ensure<K>(created: Result<K, kube::Error>) -> Result<(), kube::Error> {
    match created {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        result => result.map(drop),
    }
}
