//! `modules.edgeMesh` as it is written. EdgeCore has no such module any more: EdgeMesh is a separate program there.

use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::config) struct EdgeMesh {
    pub(in crate::config) enable: bool,
    /// The name in EdgeCore's first EdgeMesh.
    pub(in crate::config) lb_strategy: String,
    /// The name in EdgeMesh.
    pub(in crate::config) service_filter_mode: String,
    /// The name in kube-proxy.
    pub(in crate::config) node_port_addresses: Vec<String>,
    /// Networks whose addresses Services may claim.
    pub(in crate::config) external_addresses: Vec<String>,
    pub(in crate::config) dns: Dns,
    pub(in crate::config) relay: RelaySettings,
}

/// The relay to nodes that this one does not reach; the program EdgeMesh has its settings as `modules.edgeTunnel`.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::config) struct RelaySettings {
    /// `host:port`, UDP; empty for none.
    pub(in crate::config) server: String,
}

/// The DNS server; the program EdgeMesh has its settings as `modules.edgeDNS`.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::config) struct Dns {
    /// An address and a port.
    pub(in crate::config) listen_address: String,
    /// Addresses, with or without a port.
    pub(in crate::config) upstream_servers: Vec<String>,
}
