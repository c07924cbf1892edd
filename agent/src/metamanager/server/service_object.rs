//! The Service `kubernetes` for pods of this node: the address of MetaServer, where it serves pods. EdgeD sets the environment
//! variables from it by which programs in a cluster find the API (`KUBERNETES_SERVICE_HOST`, `KUBERNETES_SERVICE_PORT`). Pure.

use std::net::SocketAddr;

use objectstore::{Key, Resource};
use serde_json::{Value, json};

/// Returns the key of the Service.
pub(in crate::metamanager) fn key() -> Key {
    Key::new(Resource::new("", "services"), "default", "kubernetes")
}

/// Returns the Service at `address`.
pub(super) fn object(address: SocketAddr) -> Value {
    json!({
        "kind": "Service", "apiVersion": "v1", "metadata": {"name": "kubernetes", "namespace": "default"},
        "spec": {
            "type": "ClusterIP", "clusterIP": address.ip().to_string(),
            "ports": [{"name": "https", "protocol": "TCP", "port": address.port()}],
        },
    })
}
