//! `modules.edged` as it is written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::config) struct Edged {
    pub(in crate::config) enable: bool,
    pub(in crate::config) hostname_override: String,
    #[serde(default, rename = "nodeIP")]
    pub(in crate::config) node_ip: String,
    #[serde(default)]
    pub(in crate::config) custom_interface_name: String,
    #[serde(default)]
    pub(in crate::config) node_labels: BTreeMap<String, String>,
    pub(in crate::config) pod_sandbox_image: String,
    pub(in crate::config) register_node_namespace: String,
    #[serde(rename = "minimumGCAge")]
    pub(in crate::config) minimum_gc_age: String,
    /// Not a setting of EdgeCore; empty for the kubelet's default.
    #[serde(rename = "containerGCPeriod", default)]
    pub(in crate::config) container_gc_period: String,
    /// Not a setting of EdgeCore; empty for the kubelet's default.
    #[serde(rename = "imageGCPeriod", default)]
    pub(in crate::config) image_gc_period: String,
    pub(in crate::config) max_per_pod_container_count: i64,
    pub(in crate::config) max_container_count: i64,
    pub(in crate::config) register_schedulable: bool,
    pub(in crate::config) report_event: bool,
    pub(in crate::config) root_directory: String,
    pub(in crate::config) tailored_kubelet_config: Kubelet,
}

/// The part of the kubelet's configuration that is used here.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::config) struct Kubelet {
    pub(in crate::config) address: String,
    pub(in crate::config) read_only_port: i64,
    pub(in crate::config) static_pod_path: String,
    pub(in crate::config) pod_logs_dir: String,
    pub(in crate::config) sync_frequency: String,
    pub(in crate::config) file_check_frequency: String,
    pub(in crate::config) node_status_update_frequency: String,
    pub(in crate::config) node_status_report_frequency: String,
    pub(in crate::config) node_lease_duration_seconds: i64,
    pub(in crate::config) max_pods: i64,
    #[serde(default)]
    pub(in crate::config) pods_per_core: i64,
    pub(in crate::config) node_status_max_images: i64,
    #[serde(rename = "podCIDR", default)]
    pub(in crate::config) pod_cidr: String,
    pub(in crate::config) cgroup_driver: String,
    #[serde(default)]
    pub(in crate::config) cgroup_root: String,
    #[serde(rename = "cgroupsPerQOS")]
    pub(in crate::config) cgroups_per_qos: bool,
    pub(in crate::config) pod_pids_limit: i64,
    pub(in crate::config) cluster_domain: String,
    #[serde(default)]
    pub(in crate::config) allowed_unsafe_sysctls: Vec<String>,
    #[serde(rename = "clusterDNS", default)]
    pub(in crate::config) cluster_dns: Vec<String>,
    pub(in crate::config) resolv_conf: String,
    pub(in crate::config) container_runtime_endpoint: String,
    pub(in crate::config) image_service_endpoint: String,
    pub(in crate::config) runtime_request_timeout: String,
    pub(in crate::config) serialize_image_pulls: bool,
    #[serde(default)]
    pub(in crate::config) max_parallel_image_pulls: i64,
    pub(in crate::config) container_log_max_size: String,
    pub(in crate::config) container_log_max_files: i64,
    #[serde(default)]
    pub(in crate::config) kube_reserved: BTreeMap<String, String>,
    #[serde(default)]
    pub(in crate::config) system_reserved: BTreeMap<String, String>,
    pub(in crate::config) eviction_hard: BTreeMap<String, String>,
    #[serde(default)]
    pub(in crate::config) eviction_soft: BTreeMap<String, String>,
    #[serde(default)]
    pub(in crate::config) eviction_soft_grace_period: BTreeMap<String, String>,
    #[serde(default)]
    pub(in crate::config) eviction_minimum_reclaim: BTreeMap<String, String>,
    pub(in crate::config) eviction_pressure_transition_period: String,
    #[serde(default)]
    pub(in crate::config) eviction_max_pod_grace_period: i64,
    #[serde(rename = "imageGCHighThresholdPercent")]
    pub(in crate::config) image_gc_high_threshold_percent: i64,
    #[serde(rename = "imageGCLowThresholdPercent")]
    pub(in crate::config) image_gc_low_threshold_percent: i64,
    #[serde(rename = "imageMinimumGCAge")]
    pub(in crate::config) image_minimum_gc_age: String,
    #[serde(rename = "imageMaximumGCAge")]
    pub(in crate::config) image_maximum_gc_age: String,
    pub(in crate::config) container_log_monitor_interval: String,
    pub(in crate::config) local_storage_capacity_isolation: bool,
    pub(in crate::config) register_node: bool,
    #[serde(default)]
    pub(in crate::config) register_with_taints: Vec<Taint>,
    pub(in crate::config) shutdown_grace_period: String,
    pub(in crate::config) shutdown_grace_period_critical_pods: String,
    #[serde(default)]
    pub(in crate::config) shutdown_grace_period_by_pod_priority: Vec<ShutdownPeriod>,
}

/// An item of `shutdownGracePeriodByPodPriority`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::config) struct ShutdownPeriod {
    #[serde(default)]
    pub(in crate::config) priority: i32,
    #[serde(default)]
    pub(in crate::config) shutdown_grace_period_seconds: i64,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::config) struct Taint {
    #[serde(default)]
    pub(in crate::config) key: String,
    #[serde(default)]
    pub(in crate::config) value: String,
    #[serde(default)]
    pub(in crate::config) effect: String,
}
