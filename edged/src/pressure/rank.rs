//! Ranks pods for eviction. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#pod-selection-for-kubelet-eviction>.

use std::{cmp::Reverse, collections::BTreeMap};

use k8s_openapi::api::core::v1::{Container, Pod};
use kubeapi::object::quantity;

use super::signals::Resource;

/// The resource usage of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodUsage {
    /// Usage by container.
    pub(crate) containers: BTreeMap<String, ContainerUsage>,
    /// Usage by volume, of `emptyDir` volumes.
    pub(crate) volumes: BTreeMap<String, StorageUsage>,
    /// Names of the volumes that are in memory and use no disk.
    pub(crate) in_memory: Vec<String>,
    /// Number of processes, if the runtime reports it.
    pub(crate) processes: i64,
}

/// The resource usage of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerUsage {
    /// Working set in bytes.
    pub(crate) memory: i64,
    /// Its writable layer.
    pub(crate) layer: StorageUsage,
    /// Its logs.
    pub(crate) logs: StorageUsage,
}

/// Usage of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StorageUsage {
    /// Bytes.
    pub(crate) bytes: i64,
    /// Inodes.
    pub(crate) inodes: i64,
}

impl StorageUsage {
    /// Returns the sum of both.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }
}

/// Which disk usage counts. If images have a disk of their own, writable layers are there, and logs and volumes on the node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskScope {
    /// Writable layers, logs and volumes.
    All,
    /// Writable layers.
    ImageFs,
    /// Logs and volumes.
    NodeFs,
}

impl PodUsage {
    /// Returns the working set of all containers in bytes.
    pub(crate) fn memory(&self) -> i64 {
        self.containers
            .values()
            .fold(0, |sum, container| sum.saturating_add(container.memory))
    }

    /// Returns the pod's usage of a disk.
    pub(crate) fn disk(&self, scope: DiskScope) -> StorageUsage {
        let mut sum = StorageUsage::default();
        for container in self.containers.values() {
            if scope != DiskScope::NodeFs {
                sum = sum.plus(container.layer);
            }
            if scope != DiskScope::ImageFs {
                sum = sum.plus(container.logs);
            }
        }
        if scope != DiskScope::ImageFs {
            let on_disk = self
                .volumes
                .iter()
                .filter(|(name, _)| !self.in_memory.contains(name));
            sum = on_disk.fold(sum, |sum, (_, disk)| sum.plus(*disk));
        }
        sum
    }

    fn of(&self, resource: Resource, scope: DiskScope) -> i64 {
        match resource {
            Resource::Memory => self.memory(),
            Resource::Storage => self.disk(scope).bytes,
            Resource::Inodes => self.disk(scope).inodes,
            Resource::Pids => self.processes,
        }
    }
}

/// Sorts pods by eviction order: first those that use more than they request, then those of lower priority, then those that
/// exceed their requests most.
pub(crate) fn rank<P: AsRef<Pod>>(
    pods: &mut [(P, Option<PodUsage>)],
    resource: Resource,
    scope: DiskScope,
) {
    pods.sort_by_cached_key(|(pod, usage)| {
        let pod = pod.as_ref();
        let request = pod_request(pod, resource);
        let used = usage.as_ref().map(|usage| usage.of(resource, scope));
        let over = used.map(|used| used.saturating_sub(request));
        // Unknown usage counts as exceeding and as the largest.
        let exceeds = resource == Resource::Pids || over.is_none_or(|over| over > 0);
        (
            Reverse(exceeds),
            priority(pod),
            Reverse(over.unwrap_or(i64::MAX)),
        )
    });
}

/// Returns the pod's priority, by default 0.
pub(crate) fn priority(pod: &Pod) -> i32 {
    pod.spec
        .as_ref()
        .and_then(|spec| spec.priority)
        .unwrap_or(0)
}

/// Returns what the pod requests: the sum of its containers, or that of one of its init containers if that is more, and its
/// overhead.
fn pod_request(pod: &Pod, resource: Resource) -> i64 {
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
    let overhead = spec
        .overhead
        .as_ref()
        .and_then(|all| all.get(&name))
        .and_then(quantity::whole);
    most.saturating_add(overhead.unwrap_or(0))
}

/// Returns what a container requests, in whole units. A limit without a request counts as one.
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

    fn uses(memory: i64, layer: i64, logs: i64) -> Option<PodUsage> {
        let disk = |bytes| StorageUsage {
            bytes,
            inodes: bytes / 10,
        };
        let container = ContainerUsage {
            memory,
            layer: disk(layer),
            logs: disk(logs),
        };
        Some(PodUsage {
            containers: [("c".into(), container)].into(),
            processes: memory,
            ..PodUsage::default()
        })
    }

    fn order(
        mut pods: Vec<(One, Option<PodUsage>)>,
        resource: Resource,
        scope: DiskScope,
    ) -> String {
        rank(&mut pods, resource, scope);
        pods.iter()
            .filter_map(|(pod, _)| pod.0.metadata.name.clone())
            .collect::<Vec<_>>()
            .join(" ")
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
            order(pods(), Resource::Memory, DiskScope::All),
            "unknown over-much over-little over-high within-low within-close within-much"
        );
    }

    #[test]
    fn usage_counts_on_the_disk_under_pressure() {
        let pods = || {
            vec![
                (pod("logs", "0", 0), uses(0, 10, 1000)),
                (pod("layer", "0", 0), uses(0, 900, 20)),
            ]
        };
        assert_eq!(
            order(pods(), Resource::Storage, DiskScope::All),
            "logs layer"
        );
        assert_eq!(
            order(pods(), Resource::Storage, DiskScope::ImageFs),
            "layer logs"
        );
        assert_eq!(
            order(pods(), Resource::Inodes, DiskScope::NodeFs),
            "logs layer"
        );
    }

    #[test]
    fn process_ids_go_by_priority_then_amount() {
        let pods = vec![
            (pod("few", "0", 0), uses(1, 0, 0)),
            (pod("many", "0", 0), uses(100, 0, 0)),
            (pod("low", "0", -1), uses(1, 0, 0)),
        ];
        assert_eq!(order(pods, Resource::Pids, DiskScope::All), "low many few");
    }

    #[test]
    fn pod_request_is_the_maximum_of_its_phases() {
        let container = |memory: &str, restart: Option<&str>| json!({"name": "c", "restartPolicy": restart, "resources": {"limits": {"memory": memory}}});
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "overhead": {"memory": "1"},
            "initContainers": [container("10", Some("Always")), container("100", None)],
            "containers": [container("20", None), container("30", None)],
        }}))
        .unwrap();
        assert_eq!(pod_request(&pod, Resource::Memory), 111);
    }
}
