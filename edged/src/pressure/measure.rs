//! Measures the resource usage of pods: memory, writable layers and processes from the runtime, logs and volumes from the disk.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use wire::cri;
use wire::names::is_path_component;

use super::rank::{ContainerUsage, PodUsage, StorageUsage};
use crate::{
    disk_usage,
    names::{self, Dirs},
    runtime::Runtime,
    volume_source::{self, VolumeSource, is_in_memory},
};

/// Maximum number of files that are counted; a pod with more is far beyond any limit.
const MAX_FILES: u64 = 4_000_000;

/// Returns the usage of each pod, `None` if the runtime does not know or report it.
pub(crate) async fn usages(
    runtime: &Runtime,
    dirs: &Dirs,
    pods: Vec<Arc<Pod>>,
) -> Vec<(Arc<Pod>, Option<PodUsage>)> {
    let (containers, sandboxes) = tokio::join!(runtime.container_stats(), runtime.sandbox_stats());
    let containers = containers.unwrap_or_else(|error| {
        error.log("measure all pods");
        Vec::new()
    });
    // Not every runtime reports sandboxes.
    let counted = from_runtime(&containers, &sandboxes.unwrap_or_default());
    let dirs = dirs.clone();
    let measured = componentbase::spawn_blocking(move || {
        pods.into_iter()
            .map(|pod| {
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                let known = counted.get(uid).cloned();
                let usage = on_disk(&dirs, &pod, known.clone().unwrap_or_default());
                let usage = (known.is_some() || !usage.volumes.is_empty()).then_some(usage);
                (pod, usage)
            })
            .collect()
    });
    // Waiting for a task fails only when the program ends.
    measured.await.unwrap_or_default()
}

/// Returns the runtime's figures by pod uid.
fn from_runtime(
    containers: &[cri::ContainerStats],
    sandboxes: &[cri::PodSandboxStats],
) -> BTreeMap<String, PodUsage> {
    let mut all: BTreeMap<String, PodUsage> = BTreeMap::new();
    let number = |value: &Option<cri::UInt64Value>| {
        value
            .as_ref()
            .map_or(0, |value| i64::try_from(value.value).unwrap_or(i64::MAX))
    };
    for stats in containers {
        let Some(labels) = stats
            .attributes
            .as_ref()
            .map(|attributes| &attributes.labels)
        else {
            continue;
        };
        let (Some(uid), Some(name)) = (
            labels.get(names::POD_UID),
            labels.get(names::CONTAINER_NAME),
        ) else {
            continue;
        };
        let layer = stats.writable_layer.as_ref();
        let usage = ContainerUsage {
            memory: stats
                .memory
                .as_ref()
                .map_or(0, |memory| number(&memory.working_set_bytes)),
            layer: StorageUsage {
                bytes: layer.map_or(0, |layer| number(&layer.used_bytes)),
                inodes: layer.map_or(0, |layer| number(&layer.inodes_used)),
            },
            logs: StorageUsage::default(),
        };
        let slot = all
            .entry(uid.clone())
            .or_default()
            .containers
            .entry(name.clone())
            .or_default();
        // A restarted container is listed more than once.
        slot.memory = slot.memory.saturating_add(usage.memory);
        slot.layer = slot.layer.plus(usage.layer);
    }
    for stats in sandboxes {
        let uid = stats
            .attributes
            .as_ref()
            .and_then(|attributes| attributes.labels.get(names::POD_UID));
        let process = stats
            .linux
            .as_ref()
            .and_then(|linux| linux.process.as_ref());
        if let (Some(uid), Some(process)) = (uid, process) {
            all.entry(uid.clone()).or_default().processes = number(&process.process_count);
        }
    }
    all
}

/// Adds the usage of logs and of the pod's own volumes.
fn on_disk(dirs: &Dirs, pod: &Pod, mut usage: PodUsage) -> PodUsage {
    let text = |field: &Option<String>| field.clone().filter(|text| is_path_component(text));
    let meta = &pod.metadata;
    let (Some(namespace), Some(name), Some(uid)) =
        (text(&meta.namespace), text(&meta.name), text(&meta.uid))
    else {
        return usage;
    };
    let logs = dirs.pod_logs(&namespace, &name, &uid);
    for (container, usage) in &mut usage.containers {
        if is_path_component(container) {
            usage.logs = directory_usage(&logs.join(container));
        }
    }
    for volume in volume_source::volumes(pod) {
        let Some(source) = VolumeSource::of(volume) else {
            continue;
        };
        let Some(empty_dir) = source.empty_dir() else {
            continue;
        };
        if is_path_component(&volume.name) {
            let used = directory_usage(&dirs.volume(&uid, source.directory(), &volume.name));
            usage.volumes.insert(volume.name.clone(), used);
            if is_in_memory(empty_dir) {
                usage.in_memory.push(volume.name.clone());
            }
        }
    }
    usage
}

/// Returns the disk usage of a directory; none if it does not exist.
fn directory_usage(root: &Path) -> StorageUsage {
    let used = disk_usage::of_directory(root, MAX_FILES).unwrap_or_default();
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    StorageUsage {
        bytes: number(used.bytes),
        inodes: number(used.inodes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtime_stats_are_assigned_to_pods() {
        let labels = |name: &str| {
            [
                (names::POD_UID.to_owned(), "u".to_owned()),
                (names::CONTAINER_NAME.to_owned(), name.to_owned()),
            ]
        };
        let value = |value| Some(cri::UInt64Value { value });
        let stats = |name: &str, memory| cri::ContainerStats {
            attributes: Some(cri::ContainerAttributes {
                labels: labels(name).into(),
                ..Default::default()
            }),
            memory: Some(cri::MemoryUsage {
                working_set_bytes: value(memory),
                ..Default::default()
            }),
            writable_layer: Some(cri::FilesystemUsage {
                used_bytes: value(10),
                inodes_used: value(1),
                ..Default::default()
            }),
            ..Default::default()
        };
        let all = from_runtime(
            &[
                stats("a", 5),
                stats("a", 7),
                stats("b", u64::MAX),
                stats("", 0),
            ],
            &[],
        );
        let pod = &all["u"];
        assert_eq!(pod.containers["a"].memory, 12);
        assert_eq!(
            pod.containers["a"].layer,
            StorageUsage {
                bytes: 20,
                inodes: 2
            }
        );
        assert_eq!(pod.memory(), i64::MAX);
        assert_eq!(
            from_runtime(&[cri::ContainerStats::default()], &[]),
            BTreeMap::new()
        );
    }
}
