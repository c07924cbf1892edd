//! edgecore.yaml `v1alpha2` as it is written: the keys that this agent uses, with their own names and types.
//!
//! Source: `apis/componentconfig/edgecore/v1alpha2/types.go` of KubeEdge's API. Nothing is checked here. Every key
//! without `default` has a value in `default.yaml`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod edge_mesh;
mod edged;
mod services;

pub(super) use self::{
    edge_mesh::{Dns as EdgeMeshDns, EdgeMesh},
    edged::{Edged, Kubelet, Taint},
    services::{
        DeviceTwin, EdgeStream, EventBus, InternalAccess, MetaManager, MetaServer, ServiceBus,
        TaskManager,
    },
};

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct File {
    pub(super) api_version: String,
    pub(super) kind: String,
    /// The version of EdgeCore that wrote the file: no setting.
    #[serde(default)]
    pub(super) edgecore_version: serde_json::Value,
    pub(super) database: Database,
    pub(super) modules: Modules,
    #[serde(default)]
    pub(super) feature_gates: BTreeMap<String, bool>,
    /// Not a setting of EdgeCore.
    #[serde(default)]
    pub(super) status: Status,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    pub(super) socket: String,
    pub(super) group: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Database {
    pub(super) data_source: String,
    /// Not a setting of EdgeCore.
    #[serde(default)]
    pub(super) key_file: String,
    /// Not a setting of EdgeCore.
    #[serde(default)]
    pub(super) keyring: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Modules {
    pub(super) edge_hub: EdgeHub,
    pub(super) edged: Edged,
    pub(super) meta_manager: MetaManager,
    pub(super) event_bus: EventBus,
    pub(super) device_twin: DeviceTwin,
    pub(super) edge_stream: EdgeStream,
    pub(super) service_bus: ServiceBus,
    pub(super) task_manager: TaskManager,
    /// Not a module of EdgeCore any more.
    #[serde(default)]
    pub(super) edge_mesh: EdgeMesh,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EdgeHub {
    pub(super) enable: bool,
    pub(super) heartbeat: i64,
    pub(super) http_server: String,
    pub(super) message_burst: i64,
    #[serde(rename = "messageQPS")]
    pub(super) message_qps: i64,
    #[serde(rename = "projectID")]
    pub(super) project_id: String,
    pub(super) quic: Endpoint,
    pub(super) websocket: Endpoint,
    pub(super) rotate_certificates: bool,
    pub(super) tls_ca_file: String,
    pub(super) tls_cert_file: String,
    pub(super) tls_private_key_file: String,
    pub(super) token: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Endpoint {
    pub(super) enable: bool,
    pub(super) handshake_timeout: i64,
    pub(super) server: String,
    pub(super) write_deadline: i64,
}
