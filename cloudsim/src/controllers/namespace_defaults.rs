//! The objects of every namespace: the `default` service account and the ConfigMap with the cluster's CA, `kube-root-ca.crt`. They are
//! restored if somebody deletes or changes them.

use std::sync::Arc;

use crate::controllers::reconciler::{Action, Controller};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::{
    Api, Client, ResourceExt,
    api::{ObjectMeta, PostParams},
    core::PartialObjectMeta,
    runtime::{reflector::ObjectRef, watcher},
};
use tokio_util::sync::CancellationToken;

use super::{panics::catch_panics, requeue::after_failure};

/// The ConfigMap with which pods verify the API server.
pub const ROOT_CA: &str = "kube-root-ca.crt";
/// The namespaces of a new cluster, and KubeEdge's own.
pub const INITIAL: [&str; 5] = [
    "default",
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "kubeedge",
];
/// The ConfigMap that says since when the use of token Secrets is recorded; kube-controller-manager's cleaner reads it.
const TOKEN_TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
/// The service account of pods that name none.
const DEFAULT_ACCOUNT: &str = "default";

/// Creates the namespaces of a new cluster, and the ConfigMap that the real API server creates itself, if they are missing.
pub async fn ensure_initial(client: &Client) -> Result<(), kube::Error> {
    let api = Api::<Namespace>::all(client.clone());
    for name in INITIAL {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        ensure(
            api.create(
                &PostParams::default(),
                &Namespace {
                    metadata,
                    ..Namespace::default()
                },
            )
            .await,
        )?;
    }
    let metadata = ObjectMeta {
        name: Some(TOKEN_TRACKING.to_owned()),
        ..ObjectMeta::default()
    };
    let today = clock::now().strftime("%Y-%m-%d").to_string();
    let data = Some([("since".to_owned(), today)].into());
    let map = ConfigMap {
        metadata,
        data,
        ..ConfigMap::default()
    };
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "kube-system");
    ensure(maps.create(&PostParams::default(), &map).await)
}

/// The objects that every namespace gets.
#[derive(Clone, Debug)]
pub struct NamespaceDefaults {
    /// Whether to create the service account `default`.
    pub account: bool,
    /// The cluster's CA certificate (PEM) for [`ROOT_CA`].
    pub root_ca: Option<String>,
}

/// Runs until `shutdown`.
pub async fn run(client: Client, defaults: NamespaceDefaults, shutdown: CancellationToken) {
    let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut controller = Controller::new(
        Api::<PartialObjectMeta<Namespace>>::all(client.clone()),
        watcher::Config::default(),
    )
    .watches(
        Api::<PartialObjectMeta<ServiceAccount>>::all(client.clone()),
        named(DEFAULT_ACCOUNT),
        |account| namespace_of(&account),
    );
    if defaults.root_ca.is_some() {
        controller = controller.watches(
            Api::<PartialObjectMeta<ConfigMap>>::all(client.clone()),
            named(ROOT_CA),
            |map| namespace_of(&map),
        );
    }
    controller
        .run(
            catch_panics("namespace-defaults", reconcile),
            |_, error| after_failure("create the default objects of a namespace", error),
            Arc::new((client, defaults)),
            shutdown,
        )
        .await;
}

/// Returns the namespace to reconcile when this object is deleted or changed.
fn namespace_of<K: kube::Resource>(object: &K) -> Option<ObjectRef<PartialObjectMeta<Namespace>>> {
    object.meta().namespace.as_deref().map(ObjectRef::new)
}

async fn reconcile(
    namespace: Arc<PartialObjectMeta<Namespace>>,
    context: Arc<(Client, NamespaceDefaults)>,
) -> Result<Action, kube::Error> {
    if namespace.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let (client, defaults) = &*context;
    let name = namespace.name_any();
    let named = |name: &str| ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    if defaults.account {
        let account = ServiceAccount {
            metadata: named(DEFAULT_ACCOUNT),
            ..ServiceAccount::default()
        };
        ensure(
            Api::namespaced(client.clone(), &name)
                .create(&PostParams::default(), &account)
                .await,
        )?;
    }
    if let Some(pem) = &defaults.root_ca {
        let data = Some([("ca.crt".to_owned(), pem.clone())].into());
        let map = ConfigMap {
            metadata: named(ROOT_CA),
            data,
            ..ConfigMap::default()
        };
        let api = Api::<ConfigMap>::namespaced(client.clone(), &name);
        ensure(api.create(&PostParams::default(), &map).await)?;
        if let Some(found) = api
            .get_opt(ROOT_CA)
            .await?
            .filter(|found| found.data != map.data)
        {
            let restored = ConfigMap {
                data: map.data,
                ..found
            };
            match api
                .replace(ROOT_CA, &PostParams::default(), &restored)
                .await
            {
                // on a conflict the other change leads here again
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                result => drop(result?),
            }
        }
    }
    Ok(Action::await_change())
}

/// Accepts "already exists", and "namespace not found", which means that it was deleted meanwhile.
fn ensure<K>(created: Result<K, kube::Error>) -> Result<(), kube::Error> {
    match created {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        result => result.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use kube::api::{DeleteParams, Patch, PatchParams};
    use objectstore::MemoryStore;
    use serde_json::json;
    use testkit::eventually;

    use super::*;

    #[tokio::test]
    async fn what_a_namespace_has_is_made_again() {
        let client = apiserver::builder(MemoryStore::new())
            .build()
            .client("default");
        ensure_initial(&client).await.unwrap();
        let system = Api::<ConfigMap>::namespaced(client.clone(), "kube-system");
        let since = system.get(TOKEN_TRACKING).await.unwrap().data.unwrap()["since"].clone();
        since.parse::<jiff::civil::Date>().unwrap();
        // of a later start it stays as it is
        ensure_initial(&client).await.unwrap();
        let shutdown = CancellationToken::new();
        let defaults = NamespaceDefaults {
            account: true,
            root_ca: Some("PEM".into()),
        };
        let running = tokio::spawn(run(client.clone(), defaults, shutdown.clone()));
        let maps = Api::<ConfigMap>::namespaced(client.clone(), "default");
        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "default");
        let is_whole = async || {
            let map = maps.get_opt(ROOT_CA).await.unwrap();
            let data = map.and_then(|map| map.data).unwrap_or_default();
            let account = accounts.get_opt("default").await.unwrap();
            let is_so = data.get("ca.crt").is_some_and(|pem| pem == "PEM") && account.is_some();
            if is_so { Ok(()) } else { Err((data, account)) }
        };
        eventually("made", is_whole).await;
        maps.delete(ROOT_CA, &DeleteParams::default())
            .await
            .unwrap();
        accounts
            .delete("default", &DeleteParams::default())
            .await
            .unwrap();
        eventually("made again", is_whole).await;
        let changed = Patch::Merge(json!({"data": {"ca.crt": "another"}}));
        maps.patch(ROOT_CA, &PatchParams::default(), &changed)
            .await
            .unwrap();
        eventually("as it was", is_whole).await;
        shutdown.cancel();
        running.await.unwrap();
    }
}
