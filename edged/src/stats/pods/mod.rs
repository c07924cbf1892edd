//! Converts the runtime's lists to the usage of pods. Pure.
//!
//! A pod's usage is the sum of its containers, without the sandbox's own process. Of several containers with one name the running
//! one counts, or else the newest; the same holds for sandboxes.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, btree_map::Entry};

use wire::cri;

use super::summary::{
    ContainerStats, CpuStats, InterfaceStats, MemoryStats, NetworkStats, PodReference, PodStats,
    SwapStats,
};
use crate::{names, timestamps};

/// The runtime's lists.
#[derive(Clone, Debug, Default)]
pub(super) struct RuntimeLists {
    pub(super) sandboxes: Vec<cri::PodSandbox>,
    pub(super) containers: Vec<cri::Container>,
    pub(super) stats: Vec<cri::ContainerStats>,
}

/// Returns the usage of all pods, sorted by namespace and name. Containers without pods' labels are omitted.
pub(super) fn from_lists(lists: RuntimeLists) -> Vec<PodStats> {
    let running = |sandbox: &cri::PodSandbox| sandbox.state() == cri::PodSandboxState::SandboxReady;
    let of_pod = |sandbox: &cri::PodSandbox| reference(&sandbox.labels);
    let sandboxes = newest(lists.sandboxes, of_pod, |sandbox| {
        (running(sandbox), sandbox.created_at)
    });
    let mut pods: HashMap<String, PodStats> = sandboxes
        .into_iter()
        .map(|(pod_ref, sandbox)| (sandbox.id.clone(), pod(pod_ref, &sandbox)))
        .collect();
    let running =
        |container: &cri::Container| container.state() == cri::ContainerState::ContainerRunning;
    let key = |container: &cri::Container| {
        let name = container.labels.get(names::CONTAINER_NAME)?;
        Some((container.pod_sandbox_id.clone(), name.clone()))
    };
    let containers = newest(lists.containers, key, |container| {
        (running(container), container.created_at)
    });
    let mut stats: HashMap<String, cri::ContainerStats> = lists
        .stats
        .into_iter()
        .filter_map(|stats| Some((stats.attributes.as_ref()?.id.clone(), stats)))
        .collect();
    for ((sandbox, name), about) in containers {
        let (Some(pod), Some(stats)) = (pods.get_mut(&sandbox), stats.remove(&about.id)) else {
            continue;
        };
        if stats.cpu.is_none() && stats.memory.is_none() {
            // the container has ended
            continue;
        }
        pod.containers.push(container(name, about, stats));
    }
    let mut pods: Vec<PodStats> = pods
        .into_values()
        .filter(|pod| !pod.containers.is_empty())
        .collect();
    pods.sort_by(|a, b| {
        (&a.pod_ref.namespace, &a.pod_ref.name, &a.pod_ref.uid).cmp(&(
            &b.pod_ref.namespace,
            &b.pod_ref.name,
            &b.pod_ref.uid,
        ))
    });
    pods
}

/// Returns the item of the highest rank for each key.
fn newest<T, K: Ord, R: Ord>(
    items: Vec<T>,
    key: impl Fn(&T) -> Option<K>,
    rank: impl Fn(&T) -> R,
) -> BTreeMap<K, T> {
    let mut found = BTreeMap::new();
    for item in items {
        let Some(key) = key(&item) else { continue };
        match found.entry(key) {
            Entry::Vacant(slot) => {
                slot.insert(item);
            }
            Entry::Occupied(mut slot) if rank(slot.get()) < rank(&item) => {
                slot.insert(item);
            }
            Entry::Occupied(_) => {}
        }
    }
    found
}

fn reference(labels: &BTreeMap<String, String>) -> Option<PodReference> {
    let label = |name| labels.get(name).cloned();
    Some(PodReference {
        name: label(names::POD_NAME)?,
        namespace: label(names::POD_NAMESPACE)?,
        uid: label(names::POD_UID)?,
    })
}

fn pod(pod_ref: PodReference, sandbox: &cri::PodSandbox) -> PodStats {
    PodStats {
        pod_ref,
        id: sandbox.id.clone(),
        start_time: timestamps::from_nanos(sandbox.created_at).unwrap_or_default(),
        containers: Vec::new(),
        cpu: None,
        memory: None,
        network: None,
        volumes: Vec::new(),
        ephemeral_storage: None,
        processes: None,
        swap: None,
    }
}

fn container(name: String, about: cri::Container, stats: cri::ContainerStats) -> ContainerStats {
    let cpu = stats.cpu.as_ref().map(|cpu| CpuStats {
        time: timestamps::from_nanos(cpu.timestamp).unwrap_or_default(),
        usage_nano_cores: None,
        usage_core_nano_seconds: value(cpu.usage_core_nano_seconds.as_ref()),
    });
    let memory = stats.memory.as_ref().map(|memory| MemoryStats {
        time: timestamps::from_nanos(memory.timestamp).unwrap_or_default(),
        available_bytes: value(memory.available_bytes.as_ref()).filter(|bytes| *bytes > 0),
        usage_bytes: value(memory.usage_bytes.as_ref()),
        working_set_bytes: value(memory.working_set_bytes.as_ref()),
        rss_bytes: value(memory.rss_bytes.as_ref()),
        page_faults: value(memory.page_faults.as_ref()),
        major_page_faults: value(memory.major_page_faults.as_ref()),
    });
    let swap = stats.swap.as_ref().map(|swap| SwapStats {
        time: timestamps::from_nanos(swap.timestamp).unwrap_or_default(),
        swap_available_bytes: value(swap.swap_available_bytes.as_ref()),
        swap_usage_bytes: value(swap.swap_usage_bytes.as_ref()),
    });
    ContainerStats {
        name,
        id: about.id,
        image: about.image.map(|image| image.image).unwrap_or_default(),
        layer: stats.writable_layer,
        start_time: timestamps::from_nanos(about.created_at).unwrap_or_default(),
        cpu,
        memory,
        rootfs: None,
        logs: None,
        swap,
    }
}

pub(super) fn value(given: Option<&cri::UInt64Value>) -> Option<u64> {
    given.map(|given| given.value)
}

/// Returns the sum of the known values, `None` if none is known.
fn sum(values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    values.flatten().reduce(u64::saturating_add)
}

/// Returns the sum of CPU usage.
pub(super) fn cpu<'a>(all: impl Iterator<Item = &'a CpuStats> + Clone) -> Option<CpuStats> {
    Some(CpuStats {
        time: all.clone().map(|cpu| cpu.time).max()?,
        usage_nano_cores: sum(all.clone().map(|cpu| cpu.usage_nano_cores)),
        usage_core_nano_seconds: sum(all.map(|cpu| cpu.usage_core_nano_seconds)),
    })
}

/// Returns the sum of memory usage. Available memory is known only if all have limits.
pub(super) fn memory<'a>(
    all: impl Iterator<Item = &'a MemoryStats> + Clone,
) -> Option<MemoryStats> {
    let limited = all.clone().all(|memory| memory.available_bytes.is_some());
    Some(MemoryStats {
        time: all.clone().map(|memory| memory.time).max()?,
        available_bytes: sum(all.clone().map(|memory| memory.available_bytes)).filter(|_| limited),
        usage_bytes: sum(all.clone().map(|memory| memory.usage_bytes)),
        working_set_bytes: sum(all.clone().map(|memory| memory.working_set_bytes)),
        rss_bytes: sum(all.clone().map(|memory| memory.rss_bytes)),
        page_faults: sum(all.clone().map(|memory| memory.page_faults)),
        major_page_faults: sum(all.map(|memory| memory.major_page_faults)),
    })
}

/// Returns the sum of swap usage.
pub(super) fn swap<'a>(all: impl Iterator<Item = &'a SwapStats> + Clone) -> Option<SwapStats> {
    Some(SwapStats {
        time: all.clone().map(|swap| swap.time).max()?,
        swap_available_bytes: sum(all.clone().map(|swap| swap.swap_available_bytes)),
        swap_usage_bytes: sum(all.map(|swap| swap.swap_usage_bytes)),
    })
}

/// Converts the network usage of a pod. containerd 2.3 lists the default interface a second time.
pub(super) fn network(usage: &cri::NetworkUsage) -> Option<NetworkStats> {
    let one = |interface: &cri::NetworkInterfaceUsage| InterfaceStats {
        name: interface.name.clone(),
        rx_bytes: value(interface.rx_bytes.as_ref()),
        rx_errors: value(interface.rx_errors.as_ref()),
        tx_bytes: value(interface.tx_bytes.as_ref()),
        tx_errors: value(interface.tx_errors.as_ref()),
    };
    let main = one(usage.default_interface.as_ref()?);
    let others = usage
        .interfaces
        .iter()
        .filter(|other| other.name != main.name)
        .map(one);
    let interfaces = std::iter::once(main.clone()).chain(others).collect();
    Some(NetworkStats {
        time: timestamps::from_nanos(usage.timestamp).unwrap_or_default(),
        main,
        interfaces,
    })
}
