//! Adds networks, disks, processes and the node's system containers to the summary.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::Arc,
};

use clock::Instant;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use wire::cri;

use super::{
    DISK_CACHE_PERIOD, RUNTIME_TIMEOUT, Stats, Usage,
    disk::PodDisk,
    machine, pods,
    summary::{
        ContainerStats, FsStats, MemoryStats, PodStats, ProcessStats, RuntimeStats, Summary,
        VolumeStats,
    },
};

impl Stats {
    /// Adds values that take longer to measure. As in the kubelet, values that the runtime does not report are omitted.
    pub(super) async fn extend(&self, summary: &mut Summary, now: Timestamp) {
        let (mut sandboxes, image_fs, disks) = tokio::join!(
            self.sandbox_stats(&summary.pods, now),
            self.runtime.image_fs(),
            self.disks(now)
        );
        let root = machine::disk(&self.dirs.root, now);
        let node = &mut summary.node;
        node.network = machine::network("/proc/net/dev", "/proc/net/route", now);
        node.fs = machine::whole_disk(&self.dirs.root, now);
        node.rlimit = Some(machine::rlimit(now));
        node.runtime = image_fs.ok().map(|image_fs| runtime(&image_fs, now));
        let mut mounted = BTreeMap::new();
        for pod in &mut summary.pods {
            if let Some(sandbox) = sandboxes.remove(&pod.id) {
                pod.network = sandbox.network;
                pod.processes = sandbox
                    .processes
                    .map(|count| ProcessStats { count: Some(count) });
            }
            for container in &mut pod.containers {
                let layer = container.layer.as_ref();
                container.rootfs = layer.and_then(|layer| filesystem(layer, now, &mut mounted));
            }
            if let Some(disk) = disks.get(&pod.pod_ref.uid) {
                add_disk(pod, disk, root.as_ref());
            }
        }
    }

    /// Returns the usage of all pods' volumes that can be measured.
    pub(crate) async fn volumes(&self) -> Vec<VolumeStats> {
        let disks = tokio::time::timeout(RUNTIME_TIMEOUT, self.disks(clock::now()))
            .await
            .unwrap_or_default();
        disks
            .values()
            .flat_map(|disk| disk.volumes.clone())
            .collect()
    }

    /// Returns the disk usage of pods, at most [`DISK_CACHE_PERIOD`] old.
    async fn disks(&self, now: Timestamp) -> HashMap<String, Arc<PodDisk>> {
        let pods = self.reader.state();
        let uid = |pod: &Pod| pod.metadata.uid.clone().unwrap_or_default();
        let mut disks = self.disks.lock().await;
        disks.retain(|_, (at, _)| at.elapsed() < DISK_CACHE_PERIOD);
        let due: Vec<_> = pods
            .into_iter()
            .filter(|pod| !disks.contains_key(&uid(pod)))
            .collect();
        let dirs = self.dirs.clone();
        let counted = componentbase::spawn_blocking(move || {
            let read = |pod: &Arc<Pod>| {
                (
                    uid(pod),
                    (Instant::now(), Arc::new(PodDisk::read(&dirs, pod, now))),
                )
            };
            due.iter().map(read).collect::<Vec<_>>()
        });
        disks.extend(counted.await.unwrap_or_default());
        disks
            .iter()
            .map(|(uid, (_, disk))| (uid.clone(), disk.clone()))
            .collect()
    }
}

fn add_disk(pod: &mut PodStats, disk: &PodDisk, root: Option<&FsStats>) {
    let (mut bytes, mut inodes) = disk.ephemeral;
    for container in &mut pod.containers {
        container.logs = disk.logs.get(&container.name).cloned();
        for part in container.rootfs.iter().chain(&container.logs) {
            bytes += part.used_bytes.unwrap_or(0);
            inodes += part.inodes_used.unwrap_or(0);
        }
    }
    pod.volumes.clone_from(&disk.volumes);
    pod.ephemeral_storage = root.map(|root| FsStats {
        used_bytes: Some(bytes),
        inodes_used: Some(inodes),
        ..root.clone()
    });
}

/// Converts the runtime's file system usage; `mounted` caches the file systems.
fn filesystem(
    usage: &cri::FilesystemUsage,
    now: Timestamp,
    mounted: &mut BTreeMap<String, Option<FsStats>>,
) -> Option<FsStats> {
    let mountpoint = &usage.fs_id.as_ref()?.mountpoint;
    let disk = match mounted.get(mountpoint) {
        Some(disk) => disk.clone(),
        None => mounted
            .entry(mountpoint.clone())
            .or_insert(machine::disk(Path::new(mountpoint), now))
            .clone(),
    };
    let unknown = FsStats {
        time: now,
        available_bytes: None,
        capacity_bytes: None,
        used_bytes: None,
        inodes_free: None,
        inodes: None,
        inodes_used: None,
    };
    Some(FsStats {
        used_bytes: pods::value(usage.used_bytes.as_ref()),
        inodes_used: pods::value(usage.inodes_used.as_ref()),
        ..disk.unwrap_or(unknown)
    })
}

/// Returns the runtime's file systems. If there is no separate one for containers, that of images is used.
fn runtime(info: &cri::ImageFsInfoResponse, now: Timestamp) -> RuntimeStats {
    let mut mounted = BTreeMap::new();
    let mut first = |all: &[cri::FilesystemUsage]| filesystem(all.first()?, now, &mut mounted);
    let image_fs = first(&info.image_filesystems);
    let container_fs = first(&info.container_filesystems).or_else(|| image_fs.clone());
    RuntimeStats {
        image_fs,
        container_fs,
    }
}

/// Returns the system containers: this agent, as `kubelet`, and all pods.
pub(super) fn system_containers(usage: &Usage) -> Vec<ContainerStats> {
    let machine = &usage.machine;
    let part = |name: &str, start_time, cpu, memory| ContainerStats {
        name: name.to_owned(),
        id: String::new(),
        image: String::new(),
        layer: None,
        start_time,
        cpu,
        memory,
        rootfs: None,
        logs: None,
        swap: None,
    };
    let agent = machine.agent.map(|agent| {
        let memory = MemoryStats {
            time: machine.at,
            available_bytes: None,
            usage_bytes: machine.agent_resident,
            working_set_bytes: machine.agent_resident,
            rss_bytes: machine.agent_anonymous,
            page_faults: agent.minor_faults.checked_add(agent.major_faults),
            major_page_faults: Some(agent.major_faults),
        };
        part(
            "kubelet",
            machine.agent_started(),
            usage.agent_cpu.clone(),
            Some(memory),
        )
    });
    let cpu = pods::cpu(usage.pods.iter().filter_map(|pod| pod.cpu.as_ref()));
    let memory = pods::memory(usage.pods.iter().filter_map(|pod| pod.memory.as_ref()));
    let pods = part(
        "pods",
        machine.started,
        cpu,
        memory.map(|all| MemoryStats {
            available_bytes: None,
            ..all
        }),
    );
    agent.into_iter().chain([pods]).collect()
}

impl machine::Machine {
    /// Returns when this process was started.
    pub(crate) fn agent_started(&self) -> Timestamp {
        let after = self
            .agent
            .and_then(|agent| i64::try_from(agent.started_nanos).ok())
            .unwrap_or(0);
        self.started
            .checked_add(SignedDuration::from_nanos(after))
            .unwrap_or(self.started)
    }
}
