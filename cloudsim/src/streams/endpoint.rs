//! Where an external API server finds the kubelets of all nodes: a port, and an address in every Node's status that leads to this cloud.
//!
//! An API server dials the first address of the type that its `--kubelet-preferred-address-types` prefers. In the status of each node, this
//! cloud puts the address of its own Service first, with that type; the node's own addresses stay behind it.
//!
//! Source: <https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/>, `GetPreferredNodeAddress` of
//! `pkg/util/node`.

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{Api, Client, api::ListParams};
use serde_json::{Map, Value, json};
use tracing::{info, warn};

use crate::pki::NAMESPACE;

/// The first type of an API server's default for `--kubelet-preferred-address-types`.
const DEFAULT_TYPE: &str = "Hostname";
/// The flag of kube-apiserver.
const FLAG: &str = "--kubelet-preferred-address-types";
/// The most pods of API servers that are read.
const MAX_SERVERS: u32 = 50;

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

impl KubeletEndpoint {
    /// Replaces the port in a patch of a Node's status, and puts the address before those of the node.
    pub(crate) fn redirect(&self, patch: &mut Value) {
        let Some(status) = patch.get_mut("status").and_then(Value::as_object_mut) else {
            return;
        };
        status.insert(
            "daemonEndpoints".to_owned(),
            json!({"kubeletEndpoint": {"Port": self.port}}),
        );
        self.add_address(status);
    }

    /// Returns a patch for a Node whose status lacks the address.
    pub(crate) fn missing_address(&self, node: &Value) -> Option<Value> {
        let addresses = node["status"].get("addresses")?;
        let mut status = Map::new();
        status.insert("addresses".to_owned(), addresses.clone());
        self.add_address(&mut status);
        let is_first = addresses.get(0) == status["addresses"].get(0);
        (!is_first).then(|| json!({"status": status}))
    }

    /// Puts the address first. Without the directive, a strategic merge would keep only one address of each type, as their merge key is
    /// the type. Source: `fixupPatchForNodeStatusAddresses` of `k8s.io/component-helpers`, which the kubelet uses.
    fn add_address(&self, status: &mut Map<String, Value>) {
        let addresses = status.get_mut("addresses").and_then(Value::as_array_mut);
        if let (Some(own), Some(addresses)) = (&self.address, addresses) {
            let own = json!({"type": own.address_type, "address": own.address});
            let directive = json!({"$patch": "replace"});
            addresses.retain(|address| *address != own && *address != directive);
            addresses.insert(0, own);
            addresses.push(directive);
        }
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
    fn address_of_the_cloud_comes_before_those_of_the_node() {
        let own = json!([{"type": "InternalIP", "address": "192.0.2.7"}, {"type": "Hostname", "address": "edge-1"}]);
        for address_type in ["Hostname", "InternalIP"] {
            let endpoint = endpoint(address_type);
            let mut patch = json!({"status": {"addresses": own}});
            endpoint.redirect(&mut patch);
            let expected = json!([
                {"type": address_type, "address": "10.96.0.7"},
                {"type": "InternalIP", "address": "192.0.2.7"}, {"type": "Hostname", "address": "edge-1"},
                {"$patch": "replace"}]);
            let port = json!({"kubeletEndpoint": {"Port": 10003}});
            assert_eq!(
                patch,
                json!({"status": {"addresses": expected, "daemonEndpoints": port}})
            );
            // a second time changes nothing
            let before = patch.clone();
            endpoint.redirect(&mut patch);
            assert_eq!(patch, before);
            assert_eq!(endpoint.missing_address(&patch), None);
            let node = json!({"status": {"addresses": own}});
            assert_eq!(
                endpoint.missing_address(&node),
                Some(json!({"status": {"addresses": expected}}))
            );
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
        let mut patch = json!({"metadata": {"labels": {"a": "b"}}});
        endpoint("Hostname").redirect(&mut patch);
        assert_eq!(patch, json!({"metadata": {"labels": {"a": "b"}}}));
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
