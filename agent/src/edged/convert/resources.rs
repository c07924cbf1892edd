//! Requests and limits as the kernel's numbers.

use k8s_openapi::{
    api::core::v1::{Container, Pod},
    apimachinery::pkg::api::resource::Quantity,
};
use wire::cri;

use crate::edged::{quantity, status};

/// The CFS period that the kubelet uses, in microseconds.
pub(crate) const PERIOD: i64 = 100_000;
/// The kernel refuses a smaller quota.
const MIN_QUOTA: i64 = 1000;
/// Bounds of `cpu.shares`.
const SHARES: (i64, i64) = (2, 262_144);

/// The container's resources; `memory` is the node's, in bytes.
pub(super) fn of_container(pod: &Pod, container: &Container, memory: i64) -> cri::LinuxContainerResources {
    let resources = container.resources.as_ref();
    let limit = |name: &str| resources.and_then(|r| r.limits.as_ref()).and_then(|map| map.get(name));
    let request = |name: &str| resources.and_then(|r| r.requests.as_ref()).and_then(|map| map.get(name));
    let millis = |q: Option<&Quantity>| q.and_then(quantity::milli).filter(|millis| *millis > 0);
    let cpu_limit = millis(limit("cpu"));
    let cpu = millis(request("cpu")).or(cpu_limit).unwrap_or(0);
    let quota = cpu_limit.map(quota);
    let bytes = |q: Option<&Quantity>| q.and_then(quantity::positive);
    let memory_request = bytes(request("memory")).or(bytes(limit("memory"))).unwrap_or(0);
    cri::LinuxContainerResources {
        cpu_period: quota.map_or(0, |_| PERIOD),
        cpu_quota: quota.unwrap_or(0),
        cpu_shares: shares(cpu),
        memory_limit_in_bytes: bytes(limit("memory")).unwrap_or(0),
        oom_score_adj: oom_score(pod, memory_request, memory),
        ..Default::default()
    }
}

/// Thousandths of a core as microseconds in each period.
pub(crate) fn quota(millis: i64) -> i64 {
    (millis.saturating_mul(PERIOD) / 1000).max(MIN_QUOTA)
}

/// Thousandths of a core as `cpu.shares`.
pub(crate) fn shares(millis: i64) -> i64 {
    (millis.saturating_mul(1024) / 1000).clamp(SHARES.0, SHARES.1)
}

/// Who goes first when memory runs out, by the kubelet's rules.
fn oom_score(pod: &Pod, request: i64, memory: i64) -> i64 {
    match status::qos(pod) {
        "Guaranteed" => -997,
        "BestEffort" => 1000,
        _ if memory <= 0 => 999,
        _ => (1000 - request.saturating_mul(1000) / memory).clamp(3, 999),
    }
}
