//! Measures what pods use: memory, layers and processes as the runtime counts them, logs and volumes by looking.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::Arc,
};

use k8s_openapi::api::core::v1::Pod;
use wire::cri;

use super::rank::{ContainerUsage, Disk, Usage};
use crate::edged::{
    names::{self, Dirs},
    runtime::Runtime,
};

/// More files than this are not counted: a pod that has them is far beyond any limit.
const MAX_FILES: usize = 4_000_000;
/// What `stat` counts blocks in, whatever the disk's own size.
const BLOCK: u64 = 512;

/// What each of the pods uses; `None` for those that the runtime knows nothing of, or when it does not tell.
pub(crate) async fn usages(
    runtime: &Runtime,
    dirs: &Dirs,
    pods: Vec<Arc<Pod>>,
) -> Vec<(Arc<Pod>, Option<Usage>)> {
    let (containers, sandboxes) = tokio::join!(runtime.container_stats(), runtime.sandbox_stats());
    let containers = containers.unwrap_or_else(|error| {
        tracing::warn!(error = &error as &dyn std::error::Error, "what pods use is not known in full");
        Vec::new()
    });
    // Not every runtime has these.
    let counted = from_runtime(&containers, &sandboxes.unwrap_or_default());
    let dirs = dirs.clone();
    let measured = tokio::task::spawn_blocking(move || {
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
    // A task that cannot be waited for is one of a program that ends.
    measured.await.unwrap_or_default()
}

/// By the pods' uids.
fn from_runtime(
    containers: &[cri::ContainerStats],
    sandboxes: &[cri::PodSandboxStats],
) -> BTreeMap<String, Usage> {
    let mut all: BTreeMap<String, Usage> = BTreeMap::new();
    let number = |value: &Option<cri::UInt64Value>| {
        value.as_ref().map_or(0, |value| i64::try_from(value.value).unwrap_or(i64::MAX))
    };
    for stats in containers {
        let Some(labels) = stats.attributes.as_ref().map(|attributes| &attributes.labels) else { continue };
        let (Some(uid), Some(name)) = (labels.get(names::POD_UID), labels.get(names::CONTAINER_NAME)) else {
            continue;
        };
        let layer = stats.writable_layer.as_ref();
        let usage = ContainerUsage {
            memory: stats.memory.as_ref().map_or(0, |memory| number(&memory.working_set_bytes)),
            layer: Disk {
                bytes: layer.map_or(0, |layer| number(&layer.used_bytes)),
                inodes: layer.map_or(0, |layer| number(&layer.inodes_used)),
            },
            logs: Disk::default(),
        };
        let slot = all.entry(uid.clone()).or_default().containers.entry(name.clone()).or_default();
        // One that was restarted is there more than once.
        slot.memory = slot.memory.saturating_add(usage.memory);
        slot.layer = slot.layer.and(usage.layer);
    }
    for stats in sandboxes {
        let uid = stats.attributes.as_ref().and_then(|attributes| attributes.labels.get(names::POD_UID));
        let process = stats.linux.as_ref().and_then(|linux| linux.process.as_ref());
        if let (Some(uid), Some(process)) = (uid, process) {
            all.entry(uid.clone()).or_default().processes = number(&process.process_count);
        }
    }
    all
}

/// Adds logs and the pod's own volumes.
fn on_disk(dirs: &Dirs, pod: &Pod, mut usage: Usage) -> Usage {
    let text = |field: &Option<String>| field.clone().filter(|text| names::is_component(text));
    let meta = &pod.metadata;
    let (Some(namespace), Some(name), Some(uid)) = (text(&meta.namespace), text(&meta.name), text(&meta.uid))
    else {
        return usage;
    };
    let logs = dirs.pod_logs(&namespace, &name, &uid);
    for (container, usage) in &mut usage.containers {
        if names::is_component(container) {
            usage.logs = tree(logs.join(container));
        }
    }
    for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
        let Some(source) = &volume.empty_dir else { continue };
        if names::is_component(&volume.name) {
            let used = tree(dirs.volume(&uid, "empty-dir", &volume.name));
            usage.volumes.insert(volume.name.clone(), used);
            if source.medium.as_deref().is_some_and(|medium| !medium.is_empty()) {
                usage.in_memory.push(volume.name.clone());
            }
        }
    }
    usage
}

/// What a directory and all below it take, links not followed, files of several names counted once.
pub(crate) fn tree(root: PathBuf) -> Disk {
    let (mut sum, mut files) = (Disk::default(), 0);
    let mut linked = BTreeSet::new();
    let mut open = vec![root];
    while let Some(path) = open.pop() {
        // What has gone meanwhile takes nothing.
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        files += 1;
        if files > MAX_FILES {
            break;
        }
        if meta.is_dir() {
            open.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        } else if meta.nlink() > 1 && !linked.insert((meta.dev(), meta.ino())) {
            continue;
        }
        let bytes = i64::try_from(meta.blocks().saturating_mul(BLOCK)).unwrap_or(i64::MAX);
        sum = sum.and(Disk { bytes, inodes: 1 });
    }
    sum
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_tree_is_measured_as_du_does() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        let empty = tree(root.clone());
        assert_eq!(empty.inodes, 3);
        fs::write(root.join("a/b/file"), vec![1; 1 << 20]).unwrap();
        fs::hard_link(root.join("a/b/file"), root.join("a/again")).unwrap();
        symlink("/usr", root.join("a/elsewhere")).unwrap();
        let full = tree(root);
        assert_eq!(full.inodes, 5, "one file, one link");
        let more = full.bytes - empty.bytes;
        assert!(((1 << 20)..(1 << 20) + 65536).contains(&more), "{more}");
        assert_eq!(tree(dir.path().join("none")), Disk::default());
    }

    #[test]
    fn the_runtimes_figures_find_their_pods() {
        let labels = |name: &str| {
            [(names::POD_UID.to_owned(), "u".to_owned()), (names::CONTAINER_NAME.to_owned(), name.to_owned())]
        };
        let value = |value| Some(cri::UInt64Value { value });
        let stats = |name: &str, memory| cri::ContainerStats {
            attributes: Some(cri::ContainerAttributes { labels: labels(name).into(), ..Default::default() }),
            memory: Some(cri::MemoryUsage { working_set_bytes: value(memory), ..Default::default() }),
            writable_layer: Some(cri::FilesystemUsage {
                used_bytes: value(10),
                inodes_used: value(1),
                ..Default::default()
            }),
            ..Default::default()
        };
        let all = from_runtime(&[stats("a", 5), stats("a", 7), stats("b", u64::MAX), stats("", 0)], &[]);
        let pod = &all["u"];
        assert_eq!(pod.containers["a"].memory, 12);
        assert_eq!(pod.containers["a"].layer, Disk { bytes: 20, inodes: 2 });
        assert_eq!(pod.memory(), i64::MAX);
        assert_eq!(from_runtime(&[cri::ContainerStats::default()], &[]), BTreeMap::new());
    }
}
