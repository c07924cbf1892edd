//! Where an external API server finds the kubelets of all nodes: a port, and an address in every Node's status that leads to this cloud.
//!
//! An API server dials the first address of the type that its `--kubelet-preferred-address-types` prefers. In the status of each node, this
//! cloud puts the address of its own Service first, with that type; the node's own addresses stay behind it.
//!
//! Source: <https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/>, `GetPreferredNodeAddress` of
//! `pkg/util/node`.

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{Api, Client, api::ListParams};
use serde_json::{Value, json};
use tracing::{info, warn};

use super::deliver::NODES_PATH;
use crate::pki::NAMESPACE;

/// The first type of an API server's default for `--kubelet-preferred-address-types`.
const DEFAULT_TYPE: &str = "Hostname";
/// The flag of kube-apiserver.
const FLAG: &str = "--kubelet-preferred-address-types";
/// The most pods of API servers that are read.
const MAX_SERVERS: u32 = 50;
/// The annotation with the path of a node's page for metrics-server, by which it finds the node behind an address of many.
/// Source: `pkg/scraper/client/resource` of metrics-server.
const METRICS_PATH_ANNOTATION: &str = "metrics.k8s.io/resource-metrics-path";

/// The Service through which an API server reaches this cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamService {
    /// Its name in namespace kubeedge.
    pub name: String,
    /// The type of address that the API server prefers; `None` to find out.
    pub address_type: Option<String>,
}

/// The address cannot be published.
#[derive(Debug, thiserror::Error)]
pub enum StreamServiceError {
    /// The Service cannot be read.
    #[error("cannot read the Service {NAMESPACE}/{name} of --stream-service")]
    Read {
        /// The name of the Service.
        name: String,
        /// The API's error.
        source: kube::Error,
    },
    /// The Service has no address.
    #[error(
        "the Service {NAMESPACE}/{name} of --stream-service has no cluster IP; create a Service of type ClusterIP with that name"
    )]
    NoAddress {
        /// The name of the Service.
        name: String,
    },
}

/// Where kubelets are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KubeletEndpoint {
    /// The port.
    pub(crate) port: u16,
    /// The address; `None` if the API server's machine leads the nodes' own addresses here.
    pub(crate) address: Option<NodeAddress>,
}

/// An address of a Node's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeAddress {
    address_type: String,
    address: String,
}

/// The directive that replaces a list in a strategic merge.
fn replace_directive() -> Value {
    json!({"$patch": "replace"})
}

/// Completes a patch of `node`'s status: `endpoint` is where its kubelet is found, if this cloud acts as the kubelet. Addresses in the
/// patch replace all that are stored. Otherwise a strategic merge keeps one address of each type, as their merge key is the type, and
/// addresses that were published before.
///
/// Source: `fixupPatchForNodeStatusAddresses` of `k8s.io/component-helpers`, which the kubelet uses.
pub(crate) fn complete_patch(patch: &mut Value, node: &str, endpoint: Option<&KubeletEndpoint>) {
    let Some(status) = patch.get_mut("status").and_then(Value::as_object_mut) else {
        return;
    };
    let mut own = None;
    if let Some(endpoint) = endpoint {
        status.insert(
            "daemonEndpoints".to_owned(),
            json!({"kubeletEndpoint": {"Port": endpoint.port}}),
        );
        own = endpoint.address.as_ref();
    }
    if let Some(addresses) = status.get_mut("addresses").and_then(Value::as_array_mut) {
        *addresses = replacement(own, addresses);
    }
    if own.is_some() {
        annotate(
            patch,
            METRICS_PATH_ANNOTATION,
            format!("{NODES_PATH}{node}/metrics/resource"),
        );
    }
}

/// Sets an annotation in a patch whose metadata are those of an object.
fn annotate(patch: &mut Value, key: &str, value: String) {
    let annotations = patch
        .as_object_mut()
        .map(|patch| patch.entry("metadata").or_insert_with(|| json!({})))
        .and_then(Value::as_object_mut)
        .map(|metadata| metadata.entry("annotations").or_insert_with(|| json!({})))
        .and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.insert(key.to_owned(), value.into());
    }
}

/// Returns the address of the cloud and then those of the node, each once, with the directive.
fn replacement(own: Option<&NodeAddress>, addresses: &[Value]) -> Vec<Value> {
    let own = own.map(|own| json!({"type": own.address_type, "address": own.address}));
    let mut all: Vec<Value> = own.into_iter().collect();
    for address in addresses {
        if !all.contains(address) && *address != replace_directive() {
            all.push(address.clone());
        }
    }
    all.push(replace_directive());
    all
}

impl KubeletEndpoint {
    /// Returns a patch for a Node whose status lacks the address.
    pub(crate) fn missing_address(&self, node: &Value) -> Option<Value> {
        let addresses = node["status"].get("addresses")?.as_array()?;
        let all = replacement(Some(self.address.as_ref()?), addresses);
        (addresses.first() != all.first()).then(|| json!({"status": {"addresses": all}}))
    }
}

impl NodeAddress {
    /// Finds the Service's address, and the type that makes the API server dial it.
    ///
    /// # Errors
    /// There is no such Service with a cluster IP.
    pub(crate) async fn of(
        client: &Client,
        service: &StreamService,
    ) -> Result<Self, StreamServiceError> {
        let name = || service.name.clone();
        let services = Api::<Service>::namespaced(client.clone(), NAMESPACE);
        let found = services.get_opt(&service.name).await;
        let found = found.map_err(|source| StreamServiceError::Read {
            name: name(),
            source,
        })?;
        let address = found
            .and_then(|service| service.spec?.cluster_ip)
            .filter(|ip| !ip.is_empty() && ip != "None")
            .ok_or_else(|| StreamServiceError::NoAddress { name: name() })?;
        let address_type = match &service.address_type {
            Some(given) => given.clone(),
            None => preferred_type(client).await,
        };
        info!(
            address,
            address_type, "address for the API server in the status of all nodes"
        );
        Ok(Self {
            address_type,
            address,
        })
    }
}

/// Returns the type that the API server prefers. Its flags are those of its pods, where it runs in pods, as with kubeadm and kind.
async fn preferred_type(client: &Client) -> String {
    let pods = Api::<Pod>::namespaced(client.clone(), "kube-system");
    let servers = ListParams::default()
        .labels("component=kube-apiserver")
        .limit(MAX_SERVERS);
    match pods.list(&servers).await {
        Ok(found) => found
            .items
            .iter()
            .find_map(flag)
            .unwrap_or_else(|| DEFAULT_TYPE.to_owned()),
        Err(error) => {
            warn!(
                error = &error as &dyn std::error::Error,
                "failed to read the flags of the API server; assuming that it prefers addresses of type Hostname"
            );
            DEFAULT_TYPE.to_owned()
        }
    }
}

/// Returns the first type of the flag among a pod's commands. Pure.
fn flag(pod: &Pod) -> Option<String> {
    let containers = &pod.spec.as_ref()?.containers;
    let words = containers
        .iter()
        .flat_map(|container| container.command.iter().chain(&container.args).flatten());
    let words: Vec<&str> = words.map(String::as_str).collect();
    let value = words.iter().enumerate().find_map(|(index, word)| {
        match word.strip_prefix(FLAG)? {
            // as two words
            "" => words.get(index + 1).copied(),
            value => value.strip_prefix('='),
        }
    })?;
    let first = value.split(',').next()?.trim();
    (!first.is_empty()).then(|| first.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(address_type: &str) -> KubeletEndpoint {
        KubeletEndpoint {
            port: 10003,
            address: Some(NodeAddress {
                address_type: address_type.to_owned(),
                address: "10.96.0.7".to_owned(),
            }),
        }
    }

    #[test]
    fn addresses_of_a_patch_replace_all_that_are_stored() {
        let address = |kind: &str, address: &str| json!({"type": kind, "address": address});
        let (ip, host) = (
            address("InternalIP", "192.0.2.7"),
            address("Hostname", "edge-1"),
        );
        let directive = replace_directive();
        for (published, own) in [
            (None, vec![ip.clone(), host.clone()]),
            // two addresses of one type, as of a dual-stack node
            (
                None,
                vec![
                    ip.clone(),
                    address("InternalIP", "2001:db8::7"),
                    host.clone(),
                ],
            ),
            (Some("Hostname"), vec![ip.clone(), host.clone()]),
            (Some("InternalIP"), vec![ip.clone(), host.clone()]),
        ] {
            let endpoint = published.map(endpoint);
            let first = published.map(|kind| address(kind, "10.96.0.7"));
            let expected: Vec<_> = first.iter().chain(&own).chain([&directive]).collect();
            // an address that is there twice, or a directive of the node's own, changes nothing
            let twice = [own.clone(), vec![directive.clone(), own[0].clone()]].concat();
            for sent in [&own, &twice] {
                let mut patch = json!({"status": {"addresses": sent}});
                complete_patch(&mut patch, "edge-1", endpoint.as_ref());
                assert_eq!(json!(expected), patch["status"]["addresses"]);
                let port = published.map(|_| json!({"kubeletEndpoint": {"Port": 10003}}));
                assert_eq!(patch["status"].get("daemonEndpoints"), port.as_ref());
                let path = published.map(|_| json!("/nodes/edge-1/metrics/resource"));
                let annotation =
                    patch.pointer("/metadata/annotations/metrics.k8s.io~1resource-metrics-path");
                assert_eq!(annotation, path.as_ref());
                let before = patch.clone();
                complete_patch(&mut patch, "edge-1", endpoint.as_ref());
                assert_eq!(patch, before, "a second time changes nothing");
                if let Some(endpoint) = &endpoint {
                    assert_eq!(endpoint.missing_address(&patch), None);
                    let node = json!({"status": {"addresses": own}});
                    let missing = json!({"status": {"addresses": expected}});
                    assert_eq!(endpoint.missing_address(&node), Some(missing));
                }
            }
        }
    }

    #[test]
    fn nothing_else_is_changed() {
        let without = KubeletEndpoint {
            port: 10003,
            address: None,
        };
        let node =
            json!({"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.7"}]}});
        assert_eq!(without.missing_address(&node), None);
        assert_eq!(
            endpoint("Hostname").missing_address(&json!({"status": {}})),
            None
        );
        for other in [
            json!({"metadata": {"labels": {"a": "b"}}}),
            json!({"status": {"phase": "x"}}),
        ] {
            let mut patch = other.clone();
            complete_patch(&mut patch, "edge-1", None);
            assert_eq!(patch, other);
        }
    }

    #[test]
    fn preferred_type_is_the_first_of_the_flag() {
        for (command, expected) in [
            (
                json!([
                    "kube-apiserver",
                    "--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname"
                ]),
                Some("InternalIP"),
            ),
            (
                json!([
                    "kube-apiserver",
                    "--kubelet-preferred-address-types",
                    "ExternalIP"
                ]),
                Some("ExternalIP"),
            ),
            (
                json!(["kube-apiserver", "--kubelet-preferred-address-types="]),
                None,
            ),
            (
                json!(["kube-apiserver", "--kubelet-preferred-address-types"]),
                None,
            ),
            (json!(["kube-apiserver", "--secure-port=6443"]), None),
        ] {
            let pod = json!({"metadata": {}, "spec": {"containers": [{"name": "c", "command": command}]}});
            let pod: Pod = serde_json::from_value(pod).unwrap();
            assert_eq!(flag(&pod).as_deref(), expected, "{command}");
        }
    }
}
