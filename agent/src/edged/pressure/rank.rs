//! Who is evicted first. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#pod-selection-for-kubelet-eviction>.

use std::{cmp::Reverse, collections::BTreeMap};

use k8s_openapi::api::core::v1::{Container, Pod};
use kubeapi::quantity;

use super::signals::Resource;

/// What a pod uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// By container.
    pub(crate) containers: BTreeMap<String, ContainerUsage>,
    /// By volume: those on disk that are the pod's own.
    pub(crate) volumes: BTreeMap<String, Disk>,
    /// The part of [`Self::volumes`] that is in memory, and takes no disk.
    pub(crate) in_memory: Vec<String>,
    /// Processes, where the runtime counts them.
    pub(crate) processes: i64,
}

/// What a container uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerUsage {
    /// Working set, bytes.
    pub(crate) memory: i64,
    /// Its writable layer.
    pub(crate) layer: Disk,
    /// Its logs.
    pub(crate) logs: Disk,
}

/// Part of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Disk {
    /// Bytes.
    pub(crate) bytes: i64,
    /// Inodes.
    pub(crate) inodes: i64,
}

impl Disk {
    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }
}

/// Whose disk counts: where images have a disk of their own, layers are there, and everything else is on the node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Layers, logs, volumes.
    All,
    /// Layers.
    ImageDisk,
    /// Logs, volumes.
    NodeDisk,
}

impl Usage {
    /// Working set of all containers.
    pub(crate) fn memory(&self) -> i64 {
        self.containers.values().fold(0, |sum, container| sum.saturating_add(container.memory))
    }

    /// What the pod takes of a disk.
    pub(crate) fn disk(&self, counted: Counted) -> Disk {
        let mut sum = Disk::default();
        for container in self.containers.values() {
            if counted != Counted::NodeDisk {
                sum = sum.and(container.layer);
            }
            if counted != Counted::ImageDisk {
                sum = sum.and(container.logs);
            }
        }
        if counted != Counted::ImageDisk {
            let on_disk = self.volumes.iter().filter(|(name, _)| !self.in_memory.contains(name));
            sum = on_disk.fold(sum, |sum, (_, disk)| sum.and(*disk));
        }
        sum
    }

    fn of(&self, resource: Resource, counted: Counted) -> i64 {
        match resource {
            Resource::Memory => self.memory(),
            Resource::Storage => self.disk(counted).bytes,
            Resource::Inodes => self.disk(counted).inodes,
            Resource::Pids => self.processes,
        }
    }
}

/// Sorts pods, each with its usage where that is known: whoever comes first is evicted first. Those that use more than they
/// asked for, then those of lower priority, then those that use most beyond what they asked for.
pub(crate) fn rank<P: AsRef<Pod>>(pods: &mut [(P, Option<Usage>)], resource: Resource, counted: Counted) {
    pods.sort_by_cached_key(|(pod, usage)| {
        let pod = pod.as_ref();
        let request = requested(pod, resource);
        let used = usage.as_ref().map(|usage| usage.of(resource, counted));
        let over = used.map(|used| used.saturating_sub(request));
        // What is not known may be anything: it counts as too much, and goes before what is.
        let exceeds = resource == Resource::Pids || over.is_none_or(|over| over > 0);
        (Reverse(exceeds), priority(pod), Reverse(over.unwrap_or(i64::MAX)))
    });
}

/// The pod's priority; 0 when it has none.
pub(crate) fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
}

/// What the pod asks for: its containers together, or one of its init containers, if that is more; and its overhead.
fn requested(pod: &Pod, resource: Resource) -> i64 {
    if !matches!(resource, Resource::Memory | Resource::Storage) {
        return 0;
    }
    let name = resource.to_string();
    let Some(spec) = &pod.spec else { return 0 };
    let sidecar = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let inits = || spec.init_containers.iter().flatten();
    let add = |sum: i64, container: &Container| sum.saturating_add(request(container, &name));
    let sidecars = inits().filter(sidecar).fold(0, add);
    let together = spec.containers.iter().fold(sidecars, add);
    let mut started = 0_i64;
    let mut most = together;
    for init in inits() {
        if sidecar(&init) {
            started = add(started, init);
        } else {
            most = most.max(add(started, init));
        }
    }
    let overhead = spec.overhead.as_ref().and_then(|all| all.get(&name)).and_then(quantity::whole);
    most.saturating_add(overhead.unwrap_or(0))
}

/// What a container asks for, in whole units; a limit without a request is one.
pub(crate) fn request(container: &Container, resource: &str) -> i64 {
    let resources = container.resources.as_ref();
    let request = resources.and_then(|all| all.requests.as_ref()?.get(resource));
    let limit = resources.and_then(|all| all.limits.as_ref()?.get(resource));
    request.or(limit).and_then(quantity::whole).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct One(Pod);

    impl AsRef<Pod> for One {
        fn as_ref(&self) -> &Pod {
            &self.0
        }
    }

    fn pod(name: &str, request: &str, priority: i32) -> One {
        One(serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"priority": priority,
            "containers": [{"name": "c", "resources": {"requests": {"memory": request, "ephemeral-storage": request}}}]
        }}))
        .unwrap())
    }

    fn uses(memory: i64, layer: i64, logs: i64) -> Option<Usage> {
        let disk = |bytes| Disk { bytes, inodes: bytes / 10 };
        let container = ContainerUsage { memory, layer: disk(layer), logs: disk(logs) };
        Some(Usage { containers: [("c".into(), container)].into(), processes: memory, ..Usage::default() })
    }

    fn order(mut pods: Vec<(One, Option<Usage>)>, resource: Resource, counted: Counted) -> String {
        rank(&mut pods, resource, counted);
        pods.iter().filter_map(|(pod, _)| pod.0.metadata.name.clone()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn memory_goes_by_excess_then_priority_then_amount() {
        let pods = || {
            vec![
                (pod("within-low", "100", -5), uses(90, 0, 0)),
                (pod("over-high", "100", 10), uses(5000, 0, 0)),
                (pod("over-little", "100", 0), uses(110, 0, 0)),
                (pod("over-much", "10", 0), uses(100, 0, 0)),
                (pod("within-much", "1000", 0), uses(900, 0, 0)),
                (pod("within-close", "1000", 0), uses(1000, 0, 0)),
                (pod("unknown", "1000", 0), None),
            ]
        };
        assert_eq!(
            order(pods(), Resource::Memory, Counted::All),
            "unknown over-much over-little over-high within-low within-close within-much"
        );
    }

    #[test]
    fn the_disk_that_is_short_is_the_one_that_counts() {
        let pods =
            || vec![(pod("logs", "0", 0), uses(0, 10, 1000)), (pod("layer", "0", 0), uses(0, 900, 20))];
        assert_eq!(order(pods(), Resource::Storage, Counted::All), "logs layer");
        assert_eq!(order(pods(), Resource::Storage, Counted::ImageDisk), "layer logs");
        assert_eq!(order(pods(), Resource::Inodes, Counted::NodeDisk), "logs layer");
    }

    #[test]
    fn process_ids_go_by_priority_then_amount() {
        let pods = vec![
            (pod("few", "0", 0), uses(1, 0, 0)),
            (pod("many", "0", 0), uses(100, 0, 0)),
            (pod("low", "0", -1), uses(1, 0, 0)),
        ];
        assert_eq!(order(pods, Resource::Pids, Counted::All), "low many few");
    }

    #[test]
    fn a_pod_asks_for_its_greatest_moment() {
        let container = |memory: &str, restart: Option<&str>| json!({"name": "c", "restartPolicy": restart, "resources": {"limits": {"memory": memory}}});
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "overhead": {"memory": "1"},
            "initContainers": [container("10", Some("Always")), container("100", None)],
            "containers": [container("20", None), container("30", None)],
        }}))
        .unwrap();
        assert_eq!(requested(&pod, Resource::Memory), 111);
    }
}
