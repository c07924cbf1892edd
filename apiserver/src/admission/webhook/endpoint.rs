//! Where a webhook is: at a URL, or behind a service whose endpoints, or whose `externalName`, the API can reach.

use std::{net::SocketAddr, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::Value;
use tokio::{net::lookup_host, time::timeout};
use url::Url;

use crate::Server;
use kubeapi::{
    object::{items, text, text_or_empty},
    validate::endpoint_address,
};
use objectstore::{Key, Page, Resource, Scope, Store};

/// The most time to find the addresses of a service, of which the DNS lookup of its `externalName` takes nearly all.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Where to call.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    pub(crate) addresses: Option<Vec<SocketAddr>>,
    pub(crate) ca_bundle: Option<Bytes>,
}

/// The place that `clientConfig` names.
///
/// # Errors
/// Why there is none.
pub(crate) async fn find(api: &Server, client: &Value, seconds: u64) -> Result<Endpoint, String> {
    let ca_bundle = match text_or_empty(client, "/caBundle") {
        "" => None,
        bundle => Some(
            STANDARD
                .decode(bundle)
                .map_err(|_| "caBundle is not base64".to_owned())?
                .into(),
        ),
    };
    let (mut url, addresses) = match (text(client, "/url"), client.get("service")) {
        (Some(url), _) => (Url::parse(url).map_err(|error| error.to_string())?, None),
        (None, Some(service)) => {
            let port = service.get("port").and_then(Value::as_u64).unwrap_or(443);
            let (name, namespace) = (
                text_or_empty(service, "/name"),
                text_or_empty(service, "/namespace"),
            );
            let path = text_or_empty(service, "/path").trim_start_matches('/');
            let url = Url::parse(&format!("https://{name}.{namespace}.svc:{port}/{path}"))
                .map_err(|error| error.to_string())?;
            let finding = addresses(api, namespace, name, port);
            let limit = LOOKUP_TIMEOUT.min(Duration::from_secs(seconds));
            let found = timeout(limit, finding)
                .await
                .map_err(|_| format!("no address of service {name:?} was found in time"))?;
            (url, Some(found?))
        }
        (None, None) => return Err("clientConfig names neither url nor service".to_owned()),
    };
    if url.scheme() != "https" {
        return Err("'https' is the only allowed URL scheme".to_owned());
    }
    url.query_pairs_mut()
        .append_pair("timeout", &format!("{seconds}s"));
    Ok(Endpoint {
        url,
        addresses,
        ca_bundle,
    })
}

/// Returns the addresses of the name that a service stands for.
async fn external_addresses(service: &Value, port: u64) -> Result<Vec<SocketAddr>, String> {
    let name = text_or_empty(service, "/spec/externalName");
    let port = u16::try_from(port).map_err(|_| format!("{port} is no port"))?;
    let found = lookup_host((name, port)).await;
    let found = found.map_err(|error| format!("dial tcp: lookup {name}: {error}"))?;
    Ok(found.collect())
}

/// The ready addresses behind a port of a service.
async fn addresses(
    api: &Server,
    namespace: &str,
    name: &str,
    port: u64,
) -> Result<Vec<SocketAddr>, String> {
    let key = Key::new(Resource::new("", "services"), namespace, name);
    let service = Store::get(&**api.store(), &key)
        .await
        .map_err(|error| error.to_string())?;
    let service = service.ok_or_else(|| format!("service {name:?} not found"))?;
    let service = service.value().map_err(|error| error.to_string())?;
    if text(&service, "/spec/type") == Some("ExternalName") {
        return external_addresses(&service, port).await;
    }
    let ports = items(&service, "/spec/ports");
    let own = ports
        .iter()
        .find(|own| own.get("port").and_then(Value::as_u64) == Some(port))
        .ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    let port_name = text_or_empty(own, "/name");
    let scope = Scope {
        resource: Resource::new("discovery.k8s.io", "endpointslices"),
        namespace: Some(namespace.to_owned()),
    };
    let slices = api
        .store()
        .list(&scope, &Page::default())
        .await
        .map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for slice in slices.items {
        let slice = slice.value().map_err(|error| error.to_string())?;
        let label = slice
            .pointer("/metadata/labels")
            .and_then(|labels| labels.get("kubernetes.io/service-name"));
        if label.and_then(Value::as_str) != Some(name) {
            continue;
        }
        let target = items(&slice, "/ports")
            .iter()
            .find(|one| text_or_empty(one, "/name") == port_name);
        let target = target
            .and_then(|one| one.get("port"))
            .and_then(Value::as_u64);
        let Some(target) = target.and_then(|port| u16::try_from(port).ok()) else {
            continue;
        };
        let ready = items(&slice, "/endpoints").iter().filter(|endpoint| {
            endpoint
                .pointer("/conditions/ready")
                .and_then(Value::as_bool)
                != Some(false)
        });
        let hosts = ready
            .flat_map(|endpoint| items(endpoint, "/addresses"))
            .filter_map(Value::as_str);
        // slices that were stored when the API took any address may lead to this very machine
        found.extend(
            hosts.filter_map(|host| Some(SocketAddr::new(endpoint_address(host)?, target))),
        );
    }
    if found.is_empty() {
        Err(format!("no endpoints available for service {name:?}"))
    } else {
        Ok(found)
    }
}
