//! The control group limits of pods and QoS classes. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/> and
//! <https://docs.kernel.org/admin-guide/cgroup-v2.html>.

use k8s_openapi::api::core::v1::Pod;

use super::name::QosClass;
use crate::{
    admit,
    convert::{CPU_QUOTA_PERIOD, cpu_quota, cpu_shares},
    specs,
};

/// Maximum `cpu.weight` of version 2.
const MAX_WEIGHT: i64 = 10_000;

/// Limits of a control group and all below it; `None` leaves the kernel's value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// CPU shares in relation to other groups; 1024 for a core.
    pub(super) shares: Option<i64>,
    /// CFS quota: microseconds in each [`CPU_QUOTA_PERIOD`].
    pub(super) quota: Option<i64>,
    /// Memory in bytes.
    pub(super) memory: Option<i64>,
    /// Number of processes.
    pub(super) processes: Option<i64>,
}

/// The version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CgroupVersion {
    /// Each controller has a hierarchy of its own.
    V1,
    /// There is one hierarchy for all controllers.
    V2,
}

impl Limits {
    /// Returns limits that set only CPU shares, from thousandths of a core.
    pub(super) fn of_cpu(millis: i64) -> Self {
        Self {
            shares: Some(cpu_shares(millis)),
            ..Self::default()
        }
    }

    /// Returns a pod's limits, from its QoS class and its containers' requests and limits.
    pub(super) fn of_pod(pod: &Pod, class: QosClass, processes: Option<i64>) -> Self {
        if class == QosClass::BestEffort {
            return Self {
                processes,
                ..Self::of_cpu(0)
            };
        }
        Self {
            shares: Some(cpu_shares(cpu_request(pod))),
            quota: admit::limit_of(pod, "cpu").map(cpu_quota),
            memory: admit::limit_of(pod, "memory"),
            processes,
        }
    }

    /// Returns what to write to the group's files: controller, file name, content.
    pub(super) fn files(
        &self,
        version: CgroupVersion,
    ) -> Vec<(&'static str, &'static str, String)> {
        let mut files = Vec::new();
        let mut file = |of, name, text: String| files.push((of, name, text));
        match (self.shares, version) {
            (Some(shares), CgroupVersion::V1) => file("cpu", "cpu.shares", shares.to_string()),
            (Some(shares), CgroupVersion::V2) => {
                file("cpu", "cpu.weight", weight(shares).to_string())
            }
            (None, _) => {}
        }
        match (self.quota, version) {
            (Some(quota), CgroupVersion::V1) => {
                file("cpu", "cpu.cfs_period_us", CPU_QUOTA_PERIOD.to_string());
                file("cpu", "cpu.cfs_quota_us", quota.to_string());
            }
            (Some(quota), CgroupVersion::V2) => {
                file("cpu", "cpu.max", format!("{quota} {CPU_QUOTA_PERIOD}"))
            }
            (None, _) => {}
        }
        if let Some(memory) = self.memory {
            let name = if version == CgroupVersion::V1 {
                "memory.limit_in_bytes"
            } else {
                "memory.max"
            };
            file("memory", name, memory.to_string());
        }
        if let Some(processes) = self.processes {
            file("pids", "pids.max", processes.to_string());
        }
        files
    }
}

/// Returns the CPU requests of all pods of a QoS class, in thousandths of a core.
pub(super) fn class_cpu_request<'a>(pods: impl Iterator<Item = &'a Pod>, class: QosClass) -> i64 {
    let of_class =
        pods.filter(|pod| QosClass::of(specs::qos(pod)) == class && !specs::is_terminal(pod));
    of_class.map(cpu_request).fold(0, i64::saturating_add)
}

fn cpu_request(pod: &Pod) -> i64 {
    let of = |amounts: admit::Amounts| amounts.get("cpu").copied();
    of(admit::requests_of(pod))
        .or_else(|| of(admit::limits_of(pod)))
        .unwrap_or(0)
}

/// Converts CPU shares to a weight of version 2, mapping one range linearly onto the other as runtimes do.
fn weight(shares: i64) -> i64 {
    1 + (shares - 2) * (MAX_WEIGHT - 1) / 262_142
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(containers: &serde_json::Value, inits: &serde_json::Value) -> Pod {
        serde_json::from_value(json!({"spec": {"containers": containers, "initContainers": inits}}))
            .unwrap()
    }

    fn files(pod: &Pod, version: CgroupVersion) -> Vec<String> {
        let limits = Limits::of_pod(pod, QosClass::of(specs::qos(pod)), Some(99));
        limits
            .files(version)
            .into_iter()
            .map(|(of, file, text)| format!("{of}/{file}={text}"))
            .collect()
    }

    #[test]
    fn pod_limit_is_the_sum_of_its_containers() {
        let two = json!([
            {"name": "a", "resources": {"limits": {"cpu": "200m", "memory": "32Mi"}}},
            {"name": "b", "resources": {"limits": {"cpu": "1", "memory": "1Mi"}}},
        ]);
        let setup =
            json!([{"name": "i", "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}}}]);
        assert_eq!(
            files(&pod(&two, &setup), CgroupVersion::V1),
            [
                "cpu/cpu.shares=1228",
                "cpu/cpu.cfs_period_us=100000",
                "cpu/cpu.cfs_quota_us=120000",
                "memory/memory.limit_in_bytes=67108864",
                "pids/pids.max=99"
            ]
        );
        assert_eq!(
            files(&pod(&two, &setup), CgroupVersion::V2),
            [
                "cpu/cpu.weight=47",
                "cpu/cpu.max=120000 100000",
                "memory/memory.max=67108864",
                "pids/pids.max=99"
            ]
        );
    }

    #[test]
    fn pod_has_no_limit_if_one_container_has_none() {
        let one = json!([
            {"name": "a", "resources": {"limits": {"cpu": "200m"}, "requests": {"cpu": "100m"}}},
            {"name": "b", "resources": {"limits": {"memory": "1Mi"}}},
        ]);
        let one = pod(&one, &json!([]));
        assert_eq!(
            files(&one, CgroupVersion::V1),
            ["cpu/cpu.shares=102", "pids/pids.max=99"]
        );
        let none = pod(&json!([{"name": "a"}]), &json!([]));
        assert_eq!(
            files(&none, CgroupVersion::V1),
            ["cpu/cpu.shares=2", "pids/pids.max=99"]
        );
        assert_eq!(
            files(&none, CgroupVersion::V2),
            ["cpu/cpu.weight=1", "pids/pids.max=99"]
        );
        assert_eq!(weight(262_144), MAX_WEIGHT);
    }

    #[test]
    fn class_request_is_the_sum_of_running_pods() {
        let burstable = |cpu: &str, phase: &str| -> Pod {
            serde_json::from_value(json!({"status": {"phase": phase}, "spec": {"containers": [
                {"name": "a", "resources": {"requests": {"cpu": cpu}}}]}}))
            .unwrap()
        };
        let pods = [
            burstable("100m", "Running"),
            burstable("1", "Pending"),
            burstable("8", "Succeeded"),
            pod(&json!([{"name": "a"}]), &json!([])),
        ];
        assert_eq!(class_cpu_request(pods.iter(), QosClass::Burstable), 1100);
    }
}
