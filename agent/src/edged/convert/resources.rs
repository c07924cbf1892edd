//! Requests and limits as the kernel's numbers.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, Pod},
    apimachinery::pkg::api::resource::Quantity,
};
use kubeapi::quantity;
use wire::cri;

use crate::edged::{specs, status};

/// The CFS period that the kubelet uses, in microseconds.
pub(crate) const PERIOD: i64 = 100_000;
/// The kernel refuses a smaller quota.
const MIN_QUOTA: i64 = 1000;
/// Bounds of `cpu.shares`.
const SHARES: (i64, i64) = (2, 262_144);
/// The score of what the node needs.
const NEEDED: i64 = -997;
/// The class of pods without which a node is none.
const NODE_CRITICAL: &str = "system-node-critical";

/// What of the machine counts for the resources of its containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Means {
    /// Bytes of memory.
    pub(crate) memory: i64,
    /// Sizes of its huge pages in bytes.
    pub(crate) page_sizes: Vec<i64>,
    /// Control groups are those of version 2.
    pub(crate) unified: bool,
    /// The kernel limits what containers swap.
    pub(crate) swap: bool,
}

/// The container's resources.
pub(super) fn of_container(pod: &Pod, container: &Container, means: &Means) -> cri::LinuxContainerResources {
    let resources = container.resources.as_ref();
    let limit = |name: &str| resources.and_then(|r| r.limits.as_ref()).and_then(|map| map.get(name));
    let request = |name: &str| resources.and_then(|r| r.requests.as_ref()).and_then(|map| map.get(name));
    let millis = |q: Option<&Quantity>| q.and_then(quantity::milli).filter(|millis| *millis > 0);
    let cpu_limit = millis(limit("cpu"));
    let cpu = millis(request("cpu")).or(cpu_limit).unwrap_or(0);
    let quota = cpu_limit.map(quota);
    let memory = limit("memory").and_then(quantity::positive).unwrap_or(0);
    cri::LinuxContainerResources {
        cpu_period: quota.map_or(0, |_| PERIOD),
        cpu_quota: quota.unwrap_or(0),
        cpu_shares: shares(cpu),
        memory_limit_in_bytes: memory,
        // memory and swap together: none of the latter
        memory_swap_limit_in_bytes: if means.swap && !means.unified { memory } else { 0 },
        hugepage_limits: hugepage_limits(container, &means.page_sizes),
        unified: if means.unified { unified(means.swap) } else { BTreeMap::new() },
        oom_score_adj: oom_score(pod, container, means.memory),
        ..Default::default()
    }
}

/// Files of version 2: when memory runs out a container ends as a whole, and it does not swap, as with the kubelet's defaults.
fn unified(swap: bool) -> BTreeMap<String, String> {
    let no_swap = swap.then_some(("memory.swap.max", "0"));
    let files = [("memory.oom.group", "1")].into_iter().chain(no_swap);
    files.map(|(file, text)| (file.to_owned(), text.to_owned())).collect()
}

/// For each size of page that the machine has: none, unless the container asks for some.
fn hugepage_limits(container: &Container, sizes: &[i64]) -> Vec<cri::HugepageLimit> {
    let limits = container.resources.iter().flat_map(|resources| resources.limits.iter().flatten());
    let asked: Vec<_> = limits
        .filter_map(|(name, amount)| {
            let size = Quantity(name.strip_prefix("hugepages-")?.to_owned());
            Some((quantity::whole(&size)?, quantity::whole(amount)?))
        })
        .collect();
    let limit = |size: i64| cri::HugepageLimit {
        page_size: page_size(size),
        limit: asked.iter().find(|(of, _)| *of == size).map_or(0, |(_, bytes)| bytes.unsigned_abs()),
    };
    sizes.iter().map(|size| limit(*size)).collect()
}

/// Bytes as the kernel's files are named: `2MB`.
fn page_size(bytes: i64) -> String {
    let units = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}

/// Thousandths of a core as microseconds in each period.
pub(crate) fn quota(millis: i64) -> i64 {
    (millis.saturating_mul(PERIOD) / 1000).max(MIN_QUOTA)
}

/// Thousandths of a core as `cpu.shares`.
pub(crate) fn shares(millis: i64) -> i64 {
    (millis.saturating_mul(1024) / 1000).clamp(SHARES.0, SHARES.1)
}

/// Who goes first when memory runs out, by the kubelet's rules. `memory`: the node's, in bytes.
fn oom_score(pod: &Pod, container: &Container, memory: i64) -> i64 {
    let spec = pod.spec.as_ref();
    if spec.and_then(|spec| spec.priority_class_name.as_deref()) == Some(NODE_CRITICAL) {
        return NEEDED;
    }
    match status::qos(pod) {
        "Guaranteed" => return NEEDED,
        "BestEffort" => return 1000,
        _ if memory <= 0 => return 999,
        _ => {}
    }
    let score = |container: &Container| 1000 - memory_request(container).saturating_mul(1000) / memory;
    // those whom a sidecar serves do not outlive it
    let mut inits = spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let is_sidecar = inits.any(|init| init.name == container.name && specs::is_sidecar(init));
    let served = spec.filter(|_| is_sidecar).iter().flat_map(|spec| &spec.containers).map(score).min();
    served.map_or(score(container), |served| served.min(score(container))).clamp(3, 999)
}

/// Bytes; a limit is a request, too.
fn memory_request(container: &Container) -> i64 {
    let of = |map: Option<&BTreeMap<String, Quantity>>| {
        map.and_then(|map| map.get("memory")).and_then(quantity::positive)
    };
    let resources = container.resources.as_ref();
    let asked = of(resources.and_then(|r| r.requests.as_ref()));
    asked.or_else(|| of(resources.and_then(|r| r.limits.as_ref()))).unwrap_or(0)
}
