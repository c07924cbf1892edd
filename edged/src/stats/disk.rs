//! Measures the disk usage of a pod: its volumes and logs. Blocks on the disk.

use std::{collections::BTreeMap, fs, path::Path};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use wire::names::is_path_component;

use super::{
    machine,
    summary::{ClaimReference, FsStats, VolumeStats},
};
use crate::{
    disk_usage,
    names::Dirs,
    volume_source::{self, VolumeSource},
    volumes,
};

/// Maximum number of files that are counted in one directory; more would take too long.
const MAX_FILES: u64 = 200_000;

/// The disk usage of a pod.
#[derive(Clone, Debug, Default)]
pub(super) struct PodDisk {
    /// Volumes in the order of the specification.
    pub(super) volumes: Vec<VolumeStats>,
    /// Logs by container.
    pub(super) logs: BTreeMap<String, FsStats>,
    /// Bytes and inodes of the volumes that count towards the pod's ephemeral storage.
    pub(super) ephemeral: (u64, u64),
}

impl PodDisk {
    /// Measures volumes and logs of the pod.
    pub(super) fn read(dirs: &Dirs, pod: &Pod, now: Timestamp) -> Self {
        let mut found = Self::default();
        for volume in volume_source::volumes(pod) {
            let Some(source) = VolumeSource::of(volume) else {
                continue;
            };
            let Ok(path) = volumes::volume_path(dirs, pod, volume) else {
                continue;
            };
            let fs = match source {
                // It is a part of the node's file system.
                VolumeSource::HostPath(_) => None,
                // The usage of its whole file system counts, as in the kubelet.
                VolumeSource::PersistentVolumeClaim(_) => machine::whole_disk(&path, now),
                VolumeSource::EmptyDir(_)
                | VolumeSource::ConfigMap(_)
                | VolumeSource::Secret(_)
                | VolumeSource::DownwardApi(_)
                | VolumeSource::Projected(_) => disk_usage(&path, now),
            };
            let Some(fs) = fs else { continue };
            if source.is_ephemeral() {
                found.ephemeral.0 += fs.used_bytes.unwrap_or(0);
                found.ephemeral.1 += fs.inodes_used.unwrap_or(0);
            }
            let pvc_ref = source.claim().map(|claim| ClaimReference {
                name: claim.claim_name.clone(),
                namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            });
            found.volumes.push(VolumeStats {
                fs,
                name: volume.name.clone(),
                pvc_ref,
            });
        }
        found.logs = logs(dirs, pod, now).unwrap_or_default();
        found
    }
}

fn logs(dirs: &Dirs, pod: &Pod, now: Timestamp) -> Option<BTreeMap<String, FsStats>> {
    let identity = [
        &pod.metadata.namespace,
        &pod.metadata.name,
        &pod.metadata.uid,
    ];
    let [namespace, name, uid] = identity.map(|text| text.as_deref().unwrap_or_default());
    if ![namespace, name, uid].into_iter().all(is_path_component) {
        return None;
    }
    let path = dirs.pod_logs(namespace, name, uid);
    let containers = fs::read_dir(&path).ok()?.flatten();
    let one = |entry: fs::DirEntry| {
        Some((
            entry.file_name().into_string().ok()?,
            disk_usage(&entry.path(), now)?,
        ))
    };
    Some(containers.filter_map(one).collect())
}

/// Returns the usage of a directory and the state of its file system.
fn disk_usage(path: &Path, now: Timestamp) -> Option<FsStats> {
    let disk = machine::disk(path, now)?;
    let used = disk_usage::of_directory(path, MAX_FILES)
        .ok()
        .filter(|used| used.is_complete)?;
    Some(FsStats {
        used_bytes: Some(used.bytes),
        inodes_used: Some(used.inodes),
        ..disk
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_has_volumes_and_logs() {
        let path = tempfile::tempdir().unwrap();
        let dirs = Dirs {
            root: path.path().join("kubelet"),
            logs: path.path().join("logs"),
            secrets_in_memory: false,
        };
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "default", "uid": "u1"},
            "spec": {"containers": [], "volumes": [
                {"name": "disk", "emptyDir": {}},
                {"name": "memory", "emptyDir": {"medium": "Memory"}},
                {"name": "host", "hostPath": {"path": "/"}},
                {"name": "late", "emptyDir": {}},
            ]},
        }))
        .unwrap();
        for volume in ["disk", "memory"] {
            let directory = dirs.volume("u1", "empty-dir", volume);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("file"), vec![1; 50_000]).unwrap();
        }
        let logs = dirs.pod_logs("default", "p", "u1").join("web");
        fs::create_dir_all(&logs).unwrap();
        fs::write(logs.join("0.log"), vec![1; 9_000]).unwrap();
        let found = PodDisk::read(&dirs, &pod, Timestamp::UNIX_EPOCH);
        let names: Vec<_> = found
            .volumes
            .iter()
            .map(|volume| volume.name.as_str())
            .collect();
        assert_eq!(names, ["disk", "memory"], "the host's own is not the pod's");
        let used = found.volumes[0].fs.used_bytes.unwrap();
        assert!(used >= 50_000 && found.volumes[0].fs.capacity_bytes.unwrap() > used);
        assert_eq!(
            found.ephemeral,
            (used, 2),
            "what is in memory is not on the disk"
        );
        assert!(found.logs["web"].used_bytes.unwrap() >= 9_000);
    }
}
