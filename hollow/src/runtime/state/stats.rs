//! The resource usage that is reported for sandboxes and containers: small constants, and CPU and network in proportion to time.

use wire::cri;

use super::{
    Container, Nanos, RuntimeState, Sandbox,
    container::Phase,
    view::{has_labels, is_or_any},
};

/// The memory usage of a running container.
const MEMORY_BYTES: u64 = 4 << 20;
/// The number of pages in that memory.
const PAGES: u64 = MEMORY_BYTES / 4096;
/// The CPU usage of a running container: a hundredth of a core.
const NANO_CORES: u64 = 10_000_000;
/// The bytes that a container has written to its own layer.
const LAYER_BYTES: u64 = 64 << 10;
/// The number of files in that layer.
const LAYER_INODES: u64 = 4;
/// The bytes that a pod receives in a second; it sends half of that.
const RECEIVED_BYTES: u64 = 1000;

fn value(value: u64) -> Option<cri::UInt64Value> {
    Some(cri::UInt64Value { value })
}

/// Returns the elapsed time in nanoseconds.
fn elapsed_nanos(since: Nanos, now: Nanos) -> u64 {
    u64::try_from(now.saturating_sub(since)).unwrap_or(0)
}

impl Sandbox {
    /// Returns the network usage; `None` on the host's network and after the stop.
    fn network(&self, now: Nanos) -> Option<cri::NetworkUsage> {
        self.ip?;
        let received = elapsed_nanos(self.created_at, now) / 1_000_000_000 * RECEIVED_BYTES;
        let eth0 = cri::NetworkInterfaceUsage {
            name: "eth0".into(),
            rx_bytes: value(received),
            rx_errors: value(0),
            tx_bytes: value(received / 2),
            tx_errors: value(0),
        };
        Some(cri::NetworkUsage {
            timestamp: now,
            default_interface: Some(eth0),
            interfaces: Vec::new(),
        })
    }
}

impl Container {
    /// Returns the container's memory limit; 0 means none.
    fn memory_limit(&self) -> u64 {
        let resources = self
            .config
            .linux
            .as_ref()
            .and_then(|linux| linux.resources.as_ref());
        resources
            .and_then(|resources| resources.memory_limit_in_bytes.try_into().ok())
            .unwrap_or(0)
    }

    /// Returns the container's usage; without values if it does not run.
    pub(crate) fn stats(&self, now: Nanos) -> cri::ContainerStats {
        let running = match self.phase {
            Phase::Running { started_at, .. } => Some(elapsed_nanos(started_at, now)),
            Phase::Created | Phase::Exited { .. } => None,
        };
        let limit = Some(self.memory_limit()).filter(|limit| *limit > 0);
        cri::ContainerStats {
            attributes: Some(cri::ContainerAttributes {
                id: self.id.clone(),
                metadata: self.config.metadata.clone(),
                labels: self.config.labels.clone(),
                annotations: self.config.annotations.clone(),
            }),
            cpu: running.map(|time| cri::CpuUsage {
                timestamp: now,
                usage_core_nano_seconds: value(time / (1_000_000_000 / NANO_CORES)),
                usage_nano_cores: value(NANO_CORES),
                psi: None,
            }),
            memory: running.map(|_| cri::MemoryUsage {
                timestamp: now,
                working_set_bytes: value(MEMORY_BYTES),
                usage_bytes: value(MEMORY_BYTES),
                rss_bytes: value(MEMORY_BYTES),
                available_bytes: limit.and_then(|limit| value(limit.saturating_sub(MEMORY_BYTES))),
                page_faults: value(PAGES),
                major_page_faults: value(0),
                psi: None,
            }),
            writable_layer: running.map(|_| cri::FilesystemUsage {
                timestamp: now,
                fs_id: Some(cri::FilesystemIdentifier {
                    mountpoint: "/".into(),
                }),
                used_bytes: value(LAYER_BYTES),
                inodes_used: value(LAYER_INODES),
            }),
            swap: running.map(|_| cri::SwapUsage {
                timestamp: now,
                swap_available_bytes: value(0),
                swap_usage_bytes: value(0),
            }),
            io: None,
        }
    }
}

impl RuntimeState {
    pub(crate) fn container_stats(
        &self,
        filter: &cri::ContainerStatsFilter,
        now: Nanos,
    ) -> Vec<cri::ContainerStats> {
        let filter = cri::ContainerFilter {
            id: filter.id.clone(),
            pod_sandbox_id: filter.pod_sandbox_id.clone(),
            label_selector: filter.label_selector.clone(),
            state: None,
        };
        self.containers
            .values()
            .filter(|c| c.matches(&filter))
            .map(|c| c.stats(now))
            .collect()
    }

    pub(crate) fn sandbox_stats(
        &self,
        filter: &cri::PodSandboxStatsFilter,
        now: Nanos,
    ) -> Vec<cri::PodSandboxStats> {
        let matches = |sandbox: &&Sandbox| {
            is_or_any(&filter.id, &sandbox.id)
                && has_labels(&sandbox.config.labels, &filter.label_selector)
        };
        self.sandboxes
            .values()
            .filter(matches)
            .map(|sandbox| self.stats_of(sandbox, now))
            .collect()
    }

    pub(crate) fn stats_of(&self, sandbox: &Sandbox, now: Nanos) -> cri::PodSandboxStats {
        let containers: Vec<_> = sandbox
            .containers
            .iter()
            .filter_map(|id| self.containers.get(id))
            .collect();
        let running = containers
            .iter()
            .filter(|container| matches!(container.phase, Phase::Running { .. }))
            .count();
        cri::PodSandboxStats {
            attributes: Some(cri::PodSandboxAttributes {
                id: sandbox.id.clone(),
                metadata: Some(sandbox.metadata()),
                labels: sandbox.config.labels.clone(),
                annotations: sandbox.config.annotations.clone(),
            }),
            linux: Some(cri::LinuxPodSandboxStats {
                network: sandbox.network(now),
                process: sandbox.ready.then(|| cri::ProcessUsage {
                    timestamp: now,
                    // One more for the process that holds the sandbox.
                    process_count: value(1 + running as u64),
                }),
                containers: containers
                    .into_iter()
                    .map(|container| container.stats(now))
                    .collect(),
                ..Default::default()
            }),
        }
    }
}
