//! The state of a node as a document. Pure.

use serde::{Deserialize, Serialize};

use crate::log::recent::RecentLine;

/// The state of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusReport {
    /// The version of the agent.
    pub(crate) version: String,
    /// The node's name.
    pub(crate) node: String,
    /// The process id of the agent.
    pub(crate) process: u32,
    /// When the agent started.
    pub(crate) started: String,
    /// When the state was read.
    pub(crate) time: String,
    /// The connection to the cloud.
    pub(crate) cloud: CloudState,
    /// Messages that wait for the cloud, in memory and on disk.
    pub(crate) queued_messages: u64,
    /// The queues that are not empty.
    pub(crate) queues: Vec<QueueState>,
    /// The messages since the start, by kind.
    pub(crate) messages: Vec<MessageCount>,
    /// The pods.
    pub(crate) pods: Vec<PodState>,
    /// The devices.
    pub(crate) devices: Vec<DeviceState>,
    /// The registered mappers.
    pub(crate) mappers: Vec<MapperState>,
    /// The resources of the machine.
    pub(crate) resources: Resources,
    /// The latest warnings and errors of the log, the oldest first.
    pub(crate) errors: Vec<RecentLine>,
    /// The health checks that fail, as `NAME failed: REASON`.
    #[serde(default)]
    pub(crate) unhealthy: Vec<String>,
    /// What could not be read.
    pub(crate) failed: Vec<String>,
}

/// The connection to the cloud.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CloudState {
    /// The configured servers.
    pub(crate) servers: Vec<String>,
    /// `websocket` or `quic`.
    pub(crate) transport: String,
    /// Whether the cloud is connected.
    pub(crate) connected: bool,
    /// Since when it is connected, or not connected.
    pub(crate) since: String,
    /// Seconds since then.
    pub(crate) seconds: u64,
    /// The number of connections since the start.
    pub(crate) connections: u64,
}

/// A queue of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct QueueState {
    /// Its name, as in the metrics.
    pub(crate) name: String,
    /// The number of waiting items.
    pub(crate) waiting: u64,
}

/// Messages of one kind in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MessageCount {
    /// The kind.
    pub(crate) kind: String,
    /// `up` or `down`.
    pub(crate) direction: String,
    /// Their number.
    pub(crate) messages: u64,
    /// Their size.
    pub(crate) bytes: u64,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PodState {
    /// The namespace.
    pub(crate) namespace: String,
    /// The name.
    pub(crate) name: String,
    /// The state, as `kubectl get pods` prints it.
    pub(crate) state: String,
    /// Ready containers.
    pub(crate) ready: usize,
    /// All containers.
    pub(crate) containers: usize,
    /// Restarts of all containers.
    pub(crate) restarts: i32,
    /// Whether it waits for something.
    pub(crate) waiting: bool,
    /// Why it waits or has failed.
    pub(crate) message: String,
    /// The address of a running pod, unless it is that of the machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) ip: String,
    /// The first TCP port that it declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<u16>,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DeviceState {
    /// Namespace and name.
    pub(crate) name: String,
    /// Its model.
    pub(crate) model: String,
    /// Its protocol.
    pub(crate) protocol: String,
    /// Whether a mapper of this protocol is registered.
    pub(crate) mapper: bool,
}

/// A registered mapper.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MapperState {
    /// The name.
    pub(crate) name: String,
    /// The version.
    pub(crate) version: String,
    /// The protocol of its devices.
    pub(crate) protocol: String,
    /// Its socket.
    pub(crate) socket: String,
}

/// The resources of the machine; what cannot be read is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resources {
    /// Memory of the agent, bytes.
    pub(crate) agent_memory: Option<u64>,
    /// Memory that programs can still get, bytes.
    pub(crate) memory_available: Option<u64>,
    /// All memory, bytes.
    pub(crate) memory_total: Option<u64>,
    /// The load average of the last minute.
    pub(crate) load: Option<f64>,
    /// Free space beside the database, bytes.
    pub(crate) disk_free: Option<u64>,
    /// The size of that disk, bytes.
    pub(crate) disk_total: Option<u64>,
}
