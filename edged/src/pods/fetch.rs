//! Fetches ConfigMaps, Secrets and Services from the API.

use std::collections::BTreeSet;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kube::{Api, Client, api::ListParams};
use kubeapi::{LenientObject, keep_decoded};
use wire::names::is_path_component;

use crate::{
    api_message,
    references::{Fetched, Objects, Reference, config_map_data, secret_data},
    services::{KUBERNETES_SERVICE, KUBERNETES_SERVICE_NAMESPACE, variables},
};

/// Name of the ConfigMap with the CA certificates of the API.
const ROOT_CA_CONFIG_MAP: &str = "kube-root-ca.crt";
/// Its key.
const ROOT_CA_KEY: &str = "ca.crt";

/// Fetches all referenced objects concurrently. `api_ca` is an additional CA certificate of the API, PEM.
pub(super) async fn objects(
    client: &Client,
    api_ca: Option<&str>,
    namespace: &str,
    references: BTreeSet<Reference>,
) -> Objects {
    let mut objects = Objects::default();
    let source = (client, api_ca);
    let answers = join_all(
        references
            .iter()
            .map(|reference| fetch_one(source, namespace, reference)),
    )
    .await;
    for (reference, fetched) in references.into_iter().zip(answers) {
        objects.insert(reference, fetched);
    }
    objects
}

/// Returns the environment variables of the services in the pod's namespace, and of the service `kubernetes`. They are optional:
/// if the services cannot be listed, there are no variables. The service `kubernetes` is taken from `client` if that has it, else
/// from `services`.
pub(super) async fn service_variables(
    client: &Client,
    services: &Client,
    pod: &Pod,
    namespace: &str,
) -> Vec<(String, String)> {
    let links = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.enable_service_links)
        .unwrap_or(true);
    let all = async {
        if !links {
            return Vec::new();
        }
        let services = Api::<LenientObject<Service>>::namespaced(services.clone(), namespace);
        services
            .list(&ListParams::default())
            .await
            .map(keep_decoded)
            .unwrap_or_default()
    };
    let (mut all, kubernetes_service) = futures::join!(all, kubernetes_service(client, services));
    all.retain(|service| {
        namespace != KUBERNETES_SERVICE_NAMESPACE
            || service.metadata.name.as_deref() != Some(KUBERNETES_SERVICE)
    });
    all.extend(kubernetes_service);
    variables(all.iter())
}

/// Returns the service `kubernetes`, which MetaServer replaces by its own if it serves pods.
async fn kubernetes_service(client: &Client, services: &Client) -> Option<Service> {
    for client in [client, services] {
        let kubernetes_service =
            Api::<Service>::namespaced(client.clone(), KUBERNETES_SERVICE_NAMESPACE);
        if let Ok(Some(kubernetes_service)) = kubernetes_service.get_opt(KUBERNETES_SERVICE).await {
            return Some(kubernetes_service);
        }
    }
    None
}

/// Adds `api_ca` to the ConfigMap if it is the one with the API's CA certificates.
fn with_api_ca(mut map: ConfigMap, api_ca: Option<&str>) -> ConfigMap {
    if map.metadata.name.as_deref() == Some(ROOT_CA_CONFIG_MAP)
        && let (Some(own), Some(text)) = (
            api_ca,
            map.data.as_mut().and_then(|data| data.get_mut(ROOT_CA_KEY)),
        )
    {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(own);
    }
    map
}

async fn fetch_one(
    (client, api_ca): (&Client, Option<&str>),
    namespace: &str,
    reference: &Reference,
) -> Fetched {
    let data = match reference {
        // An invalid name could change the path of the request.
        Reference::ConfigMap(name) | Reference::Secret(name) if !is_path_component(name) => {
            Ok(None)
        }
        Reference::ConfigMap(name) => {
            let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
            api.get_opt(name)
                .await
                .map(|found| found.map(|map| config_map_data(with_api_ca(map, api_ca))))
        }
        Reference::Secret(name) => {
            let api = Api::<Secret>::namespaced(client.clone(), namespace);
            api.get_opt(name).await.map(|found| found.map(secret_data))
        }
    };
    match data {
        Ok(Some(data)) => Fetched::Found(data),
        Ok(None) => Fetched::Missing,
        Err(error) => Fetched::Unavailable(api_message(&error)),
    }
}

#[cfg(test)]
mod tests {
    use objectstore::MemoryStore;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn root_ca_config_map_includes_the_api_ca() {
        let client = kubeapi::Api::builder(MemoryStore::new())
            .build()
            .client("shop");
        for name in ["kube-root-ca.crt", "other"] {
            let map = json!({"metadata": {"name": name}, "data": {"ca.crt": "CLUSTER"}});
            let api = Api::<ConfigMap>::default_namespaced(client.clone());
            api.create(&Default::default(), &serde_json::from_value(map).unwrap())
                .await
                .unwrap();
        }
        let told = async |name: &str, api_ca: Option<&str>| {
            let reference = Reference::ConfigMap(name.into());
            let found = objects(&client, api_ca, "shop", [reference.clone()].into()).await;
            found.text(&reference, "ca.crt", false).ok().flatten()
        };
        assert_eq!(
            told("kube-root-ca.crt", Some("OWN\n")).await.as_deref(),
            Some("CLUSTER\nOWN\n")
        );
        assert_eq!(
            told("kube-root-ca.crt", None).await.as_deref(),
            Some("CLUSTER")
        );
        assert_eq!(
            told("other", Some("OWN\n")).await.as_deref(),
            Some("CLUSTER")
        );
    }

    #[tokio::test]
    async fn services_are_variables_if_the_pod_wants_them() {
        let client = kubeapi::Api::builder(MemoryStore::new())
            .build()
            .client("shop");
        for (namespace, name, ip) in [
            ("default", "kubernetes", "10.96.0.1"),
            ("shop", "db", "10.96.0.9"),
            ("other", "far", "10.96.0.10"),
        ] {
            let service = json!({"metadata": {"name": name, "namespace": namespace},
                "spec": {"clusterIP": ip, "ports": [{"port": 443}]}});
            let api = Api::<Service>::namespaced(client.clone(), namespace);
            api.create(
                &Default::default(),
                &serde_json::from_value(service).unwrap(),
            )
            .await
            .unwrap();
        }
        let hosts = async |links: Option<bool>| {
            let spec = json!({"spec": {"containers": [], "enableServiceLinks": links}});
            let pod: Pod = serde_json::from_value(spec).unwrap();
            let all = service_variables(&client, &client, &pod, "shop").await;
            all.into_iter()
                .map(|(name, _)| name)
                .filter(|name| name.ends_with("_HOST"))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            hosts(None).await,
            ["DB_SERVICE_HOST", "KUBERNETES_SERVICE_HOST"]
        );
        assert_eq!(hosts(Some(false)).await, ["KUBERNETES_SERVICE_HOST"]);
    }
}
