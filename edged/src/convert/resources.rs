//! Converts requests and limits to control group values.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, Pod},
    apimachinery::pkg::api::resource::Quantity,
};
use kubeapi::object::quantity;
use wire::cri;

use crate::specs;

/// CFS quota period in microseconds, the kubelet's default.
pub(crate) const CPU_QUOTA_PERIOD: i64 = 100_000;
/// Minimum CFS quota in microseconds; the kernel refuses a smaller one.
const MIN_CPU_QUOTA: i64 = 1000;
/// Minimum and maximum of `cpu.shares`.
const CPU_SHARES_RANGE: (i64, i64) = (2, 262_144);
/// `oom_score_adj` of guaranteed and node-critical pods.
const GUARANTEED_OOM_SCORE_ADJ: i64 = -997;
/// Priority class of pods that the node itself depends on.
const NODE_CRITICAL: &str = "system-node-critical";

/// Properties of the machine that determine its containers' resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineResources {
    /// Memory in bytes.
    pub(crate) memory: i64,
    /// Sizes of huge pages in bytes.
    pub(crate) page_sizes: Vec<i64>,
    /// Whether control groups are of version 2.
    pub(crate) unified: bool,
    /// Whether the kernel can limit swap of control groups.
    pub(crate) swap: bool,
}

/// Returns the container's resources for CRI.
pub(crate) fn of_container(
    pod: &Pod,
    container: &Container,
    machine_resources: &MachineResources,
) -> cri::LinuxContainerResources {
    let resources = container.resources.as_ref();
    let limit = |name: &str| {
        resources
            .and_then(|r| r.limits.as_ref())
            .and_then(|map| map.get(name))
    };
    let request = |name: &str| {
        resources
            .and_then(|r| r.requests.as_ref())
            .and_then(|map| map.get(name))
    };
    let millis = |q: Option<&Quantity>| q.and_then(quantity::milli).filter(|millis| *millis > 0);
    let cpu_limit = millis(limit("cpu"));
    let cpu = millis(request("cpu")).or(cpu_limit).unwrap_or(0);
    let quota = cpu_limit.map(cpu_quota);
    let memory = limit("memory").and_then(quantity::positive).unwrap_or(0);
    cri::LinuxContainerResources {
        cpu_period: quota.map_or(0, |_| CPU_QUOTA_PERIOD),
        cpu_quota: quota.unwrap_or(0),
        cpu_shares: cpu_shares(cpu),
        memory_limit_in_bytes: memory,
        // the limit of memory and swap together: no swap may be used
        memory_swap_limit_in_bytes: if machine_resources.swap && !machine_resources.unified {
            memory
        } else {
            0
        },
        hugepage_limits: hugepage_limits(container, &machine_resources.page_sizes),
        unified: if machine_resources.unified {
            unified_settings(machine_resources.swap)
        } else {
            BTreeMap::new()
        },
        oom_score_adj: oom_score_adj(pod, container, machine_resources.memory),
        ..Default::default()
    }
}

/// Returns settings of control groups of version 2, the kubelet's defaults: the OOM killer ends all processes of a container, and
/// the container uses no swap.
fn unified_settings(swap: bool) -> BTreeMap<String, String> {
    let no_swap = swap.then_some(("memory.swap.max", "0"));
    let files = [("memory.oom.group", "1")].into_iter().chain(no_swap);
    files
        .map(|(file, text)| (file.to_owned(), text.to_owned()))
        .collect()
}

/// Returns a limit for each huge page size of the machine: 0 unless the container sets one.
fn hugepage_limits(container: &Container, sizes: &[i64]) -> Vec<cri::HugepageLimit> {
    let limits = container
        .resources
        .iter()
        .flat_map(|resources| resources.limits.iter().flatten());
    let requested: Vec<_> = limits
        .filter_map(|(name, amount)| {
            let size = Quantity(name.strip_prefix("hugepages-")?.to_owned());
            Some((quantity::whole(&size)?, quantity::whole(amount)?))
        })
        .collect();
    let limit = |size: i64| cri::HugepageLimit {
        page_size: page_size(size),
        limit: requested
            .iter()
            .find(|(of, _)| *of == size)
            .map_or(0, |(_, bytes)| bytes.unsigned_abs()),
    };
    sizes.iter().map(|size| limit(*size)).collect()
}

/// Formats a page size as in the kernel's file names: `2MB`.
fn page_size(bytes: i64) -> String {
    let units = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or_else(
        || bytes.to_string(),
        |(unit, name)| format!("{}{name}", bytes / unit),
    )
}

/// Converts thousandths of a core to a CFS quota: microseconds in each period.
pub(crate) fn cpu_quota(millis: i64) -> i64 {
    (millis.saturating_mul(CPU_QUOTA_PERIOD) / 1000).max(MIN_CPU_QUOTA)
}

/// Converts thousandths of a core to `cpu.shares`.
pub(crate) fn cpu_shares(millis: i64) -> i64 {
    (millis.saturating_mul(1024) / 1000).clamp(CPU_SHARES_RANGE.0, CPU_SHARES_RANGE.1)
}

/// Returns `oom_score_adj` by the kubelet's rules. `memory` is the node's, in bytes.
fn oom_score_adj(pod: &Pod, container: &Container, memory: i64) -> i64 {
    let spec = pod.spec.as_ref();
    if spec.and_then(|spec| spec.priority_class_name.as_deref()) == Some(NODE_CRITICAL) {
        return GUARANTEED_OOM_SCORE_ADJ;
    }
    match specs::qos(pod) {
        "Guaranteed" => return GUARANTEED_OOM_SCORE_ADJ,
        "BestEffort" => return 1000,
        _ if memory <= 0 => return 999,
        _ => {}
    }
    let score =
        |container: &Container| 1000 - memory_request(container).saturating_mul(1000) / memory;
    // a sidecar is killed no earlier than the containers that it serves
    let mut inits = spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten());
    let is_sidecar = inits.any(|init| init.name == container.name && specs::is_sidecar(init));
    let served = spec
        .filter(|_| is_sidecar)
        .iter()
        .flat_map(|spec| &spec.containers)
        .map(score)
        .min();
    served
        .map_or(score(container), |served| served.min(score(container)))
        .clamp(3, 999)
}

/// Returns the memory request in bytes; the limit is used if there is no request.
fn memory_request(container: &Container) -> i64 {
    let of = |map: Option<&BTreeMap<String, Quantity>>| {
        map.and_then(|map| map.get("memory"))
            .and_then(quantity::positive)
    };
    let resources = container.resources.as_ref();
    let requested = of(resources.and_then(|r| r.requests.as_ref()));
    requested
        .or_else(|| of(resources.and_then(|r| r.limits.as_ref())))
        .unwrap_or(0)
}
