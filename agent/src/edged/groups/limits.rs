//! What a pod may use as a whole, as the kernel's numbers. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/> and
//! <https://docs.kernel.org/admin-guide/cgroup-v2.html>.

use k8s_openapi::api::core::v1::Pod;

use super::name::Class;
use crate::edged::{
    admit,
    convert::{PERIOD, quota, shares},
    specs, status,
};

/// The highest `cpu.weight`, version 2.
const MAX_WEIGHT: i64 = 10_000;

/// What a control group and all below it may use; `None` is left as the kernel has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Its share of the processors beside other groups; 1024 for a core.
    pub(super) shares: Option<i64>,
    /// Microseconds of processors in each period of the kubelet's length.
    pub(super) quota: Option<i64>,
    /// Bytes.
    pub(super) memory: Option<i64>,
    /// Processes.
    pub(super) processes: Option<i64>,
}

/// The two ways in which kernels have control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// Every controller has a hierarchy.
    One,
    /// There is one hierarchy.
    Two,
}

impl Limits {
    /// A part of the processors only.
    pub(super) fn of_cpu(millis: i64) -> Self {
        Self { shares: Some(shares(millis)), ..Self::default() }
    }

    /// What the pod's class and its containers' requests and limits come to.
    pub(super) fn of_pod(pod: &Pod, class: Class, processes: Option<i64>) -> Self {
        if class == Class::BestEffort {
            return Self { processes, ..Self::of_cpu(0) };
        }
        Self {
            shares: Some(shares(cpu_request(pod))),
            quota: admit::limit_of(pod, "cpu").map(quota),
            memory: admit::limit_of(pod, "memory"),
            processes,
        }
    }

    /// Which files of a group have to say what: controller, file, content.
    pub(super) fn files(&self, version: Version) -> Vec<(&'static str, &'static str, String)> {
        let mut files = Vec::new();
        let mut file = |of, name, text: String| files.push((of, name, text));
        match (self.shares, version) {
            (Some(shares), Version::One) => file("cpu", "cpu.shares", shares.to_string()),
            (Some(shares), Version::Two) => file("cpu", "cpu.weight", weight(shares).to_string()),
            (None, _) => {}
        }
        match (self.quota, version) {
            (Some(quota), Version::One) => {
                file("cpu", "cpu.cfs_period_us", PERIOD.to_string());
                file("cpu", "cpu.cfs_quota_us", quota.to_string());
            }
            (Some(quota), Version::Two) => file("cpu", "cpu.max", format!("{quota} {PERIOD}")),
            (None, _) => {}
        }
        if let Some(memory) = self.memory {
            let name = if version == Version::One { "memory.limit_in_bytes" } else { "memory.max" };
            file("memory", name, memory.to_string());
        }
        if let Some(processes) = self.processes {
            file("pids", "pids.max", processes.to_string());
        }
        files
    }
}

/// Thousandths of a core that the pods of a class ask for together.
pub(super) fn cpu_of_class<'a>(pods: impl Iterator<Item = &'a Pod>, class: Class) -> i64 {
    let of_class = pods.filter(|pod| Class::of(status::qos(pod)) == class && !specs::is_over(pod));
    of_class.map(cpu_request).fold(0, i64::saturating_add)
}

fn cpu_request(pod: &Pod) -> i64 {
    let of = |amounts: admit::Amounts| amounts.get("cpu").copied();
    of(admit::requests_of(pod)).or_else(|| of(admit::limits_of(pod))).unwrap_or(0)
}

/// The same part of the processors as in version 1; the range of shares is drawn onto that of weights, as runtimes do.
fn weight(shares: i64) -> i64 {
    1 + (shares - 2) * (MAX_WEIGHT - 1) / 262_142
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(containers: &serde_json::Value, inits: &serde_json::Value) -> Pod {
        serde_json::from_value(json!({"spec": {"containers": containers, "initContainers": inits}})).unwrap()
    }

    fn files(pod: &Pod, version: Version) -> Vec<String> {
        let limits = Limits::of_pod(pod, Class::of(status::qos(pod)), Some(99));
        limits.files(version).into_iter().map(|(of, file, text)| format!("{of}/{file}={text}")).collect()
    }

    #[test]
    fn the_limits_of_all_containers_are_the_pods() {
        let two = json!([
            {"name": "a", "resources": {"limits": {"cpu": "200m", "memory": "32Mi"}}},
            {"name": "b", "resources": {"limits": {"cpu": "1", "memory": "1Mi"}}},
        ]);
        let setup = json!([{"name": "i", "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}}}]);
        assert_eq!(
            files(&pod(&two, &setup), Version::One),
            [
                "cpu/cpu.shares=1228",
                "cpu/cpu.cfs_period_us=100000",
                "cpu/cpu.cfs_quota_us=120000",
                "memory/memory.limit_in_bytes=67108864",
                "pids/pids.max=99"
            ]
        );
        assert_eq!(
            files(&pod(&two, &setup), Version::Two),
            [
                "cpu/cpu.weight=47",
                "cpu/cpu.max=120000 100000",
                "memory/memory.max=67108864",
                "pids/pids.max=99"
            ]
        );
    }

    #[test]
    fn one_container_without_a_limit_is_a_pod_without() {
        let one = json!([
            {"name": "a", "resources": {"limits": {"cpu": "200m"}, "requests": {"cpu": "100m"}}},
            {"name": "b", "resources": {"limits": {"memory": "1Mi"}}},
        ]);
        let one = pod(&one, &json!([]));
        assert_eq!(files(&one, Version::One), ["cpu/cpu.shares=102", "pids/pids.max=99"]);
        let none = pod(&json!([{"name": "a"}]), &json!([]));
        assert_eq!(files(&none, Version::One), ["cpu/cpu.shares=2", "pids/pids.max=99"]);
        assert_eq!(files(&none, Version::Two), ["cpu/cpu.weight=1", "pids/pids.max=99"]);
        assert_eq!(weight(262_144), MAX_WEIGHT);
    }

    #[test]
    fn a_class_asks_for_what_its_living_pods_ask_for() {
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
        assert_eq!(cpu_of_class(pods.iter(), Class::Burstable), 1100);
    }
}
