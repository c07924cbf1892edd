//! The response of `/stats/summary`, as the kubelet's (`stats/v1alpha1`, `k8s.io/kubelet/pkg/apis/stats/v1alpha1`).
//!
//! Unknown values are omitted. Times are RFC 3339 in whole seconds.

use jiff::Timestamp;
use serde::{Serialize, Serializer};

/// A node and its pods.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) node: NodeStats,
    pub(crate) pods: Vec<PodStats>,
}

/// The node as a whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeStats {
    pub(crate) node_name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) system_containers: Vec<ContainerStats>,
    /// When the machine was started.
    #[serde(serialize_with = "seconds")]
    pub(crate) start_time: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu: Option<CpuStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<MemoryStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) network: Option<NetworkStats>,
    /// File system of the pods' volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fs: Option<FsStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) runtime: Option<RuntimeStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rlimit: Option<RlimitStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) swap: Option<SwapStats>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodStats {
    pub(crate) pod_ref: PodReference,
    /// The runtime's id of its sandbox; not in the summary.
    #[serde(skip)]
    pub(crate) id: String,
    /// When its sandbox was created.
    #[serde(serialize_with = "seconds")]
    pub(crate) start_time: Timestamp,
    pub(crate) containers: Vec<ContainerStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu: Option<CpuStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<MemoryStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) network: Option<NetworkStats>,
    #[serde(rename = "volume", skip_serializing_if = "Vec::is_empty")]
    pub(crate) volumes: Vec<VolumeStats>,
    #[serde(rename = "ephemeral-storage", skip_serializing_if = "Option::is_none")]
    pub(crate) ephemeral_storage: Option<FsStats>,
    #[serde(rename = "process_stats", skip_serializing_if = "Option::is_none")]
    pub(crate) processes: Option<ProcessStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) swap: Option<SwapStats>,
}

/// Identifies a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct PodReference {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
}

/// A container, or a system container of the node (`kubelet`, `pods`).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContainerStats {
    pub(crate) name: String,
    /// The runtime's id of the container; not in the summary.
    #[serde(skip)]
    pub(crate) id: String,
    /// The image as the pod names it; not in the summary.
    #[serde(skip)]
    pub(crate) image: String,
    /// The runtime's usage of the writable layer; the summary has `rootfs`.
    #[serde(skip)]
    pub(super) layer: Option<wire::cri::FilesystemUsage>,
    /// When it was created.
    #[serde(serialize_with = "seconds")]
    pub(crate) start_time: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu: Option<CpuStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<MemoryStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rootfs: Option<FsStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) logs: Option<FsStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) swap: Option<SwapStats>,
}

/// CPU usage.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CpuStats {
    #[serde(serialize_with = "seconds")]
    pub(crate) time: Timestamp,
    /// Nanoseconds per second over all cores, between the last two samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage_nano_cores: Option<u64>,
    /// Nanoseconds since the start, over all cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage_core_nano_seconds: Option<u64>,
}

/// Memory usage.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemoryStats {
    #[serde(serialize_with = "seconds")]
    pub(crate) time: Timestamp,
    /// The limit minus the working set; omitted without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) available_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage_bytes: Option<u64>,
    /// Memory that cannot be reclaimed easily.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) working_set_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rss_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) page_faults: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) major_page_faults: Option<u64>,
}

/// Swap usage.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SwapStats {
    #[serde(serialize_with = "seconds")]
    pub(crate) time: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) swap_available_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) swap_usage_bytes: Option<u64>,
}

/// A network: its default interface, and all interfaces.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct NetworkStats {
    #[serde(serialize_with = "seconds")]
    pub(crate) time: Timestamp,
    #[serde(flatten)]
    pub(crate) main: InterfaceStats,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) interfaces: Vec<InterfaceStats>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InterfaceStats {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rx_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rx_errors: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tx_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tx_errors: Option<u64>,
}

/// Usage of a directory, and the file system that contains it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FsStats {
    #[serde(serialize_with = "seconds")]
    pub(crate) time: Timestamp,
    /// Of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) available_bytes: Option<u64>,
    /// Of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) capacity_bytes: Option<u64>,
    /// Used by the directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) used_bytes: Option<u64>,
    /// Of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) inodes_free: Option<u64>,
    /// Of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) inodes: Option<u64>,
    /// Used by the directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) inodes_used: Option<u64>,
}

/// A pod's volume.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VolumeStats {
    #[serde(flatten)]
    pub(crate) fs: FsStats,
    pub(crate) name: String,
    /// The claim of the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pvc_ref: Option<ClaimReference>,
}

/// Identifies a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ClaimReference {
    pub(crate) name: String,
    pub(crate) namespace: String,
}

/// File systems of the runtime.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RuntimeStats {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) image_fs: Option<FsStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) container_fs: Option<FsStats>,
}

/// Limit and number of processes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RlimitStats {
    #[serde(serialize_with = "seconds")]
    pub(crate) time: Timestamp,
    #[serde(rename = "maxpid", skip_serializing_if = "Option::is_none")]
    pub(crate) max_pid: Option<u64>,
    #[serde(rename = "curproc", skip_serializing_if = "Option::is_none")]
    pub(crate) processes: Option<u64>,
}

/// The processes of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ProcessStats {
    #[serde(rename = "process_count", skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<u64>,
}

/// Serialises a time as the API does.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn seconds<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Timestamp::from_second(at.as_second()).unwrap_or(*at))
}
