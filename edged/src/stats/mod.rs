//! Resource usage of the node, its pods and their containers.
//!
//! Usage is measured only on request, and requests within a short time get the same values. Containers are measured by the
//! runtime, the node by the kernel ([`machine`]), volumes and logs by counting their files, at most once a minute. Usage per
//! second is computed from two samples ([`rates`]); the first request waits for a second sample.

mod disk;
mod machine;
mod node;
mod pods;
mod procfs;
mod rates;
mod sandboxes;
pub(crate) mod summary;

use std::{collections::HashMap, sync::Arc, time::Duration};

use clock::Instant;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::Store;
use tokio::sync::Mutex;

pub(crate) use self::machine::Machine;
use self::{
    disk::PodDisk,
    pods::RuntimeLists,
    rates::Rates,
    sandboxes::SandboxCache,
    summary::{CpuStats, NodeStats, PodStats, Summary},
};
pub use self::{machine::busy_nanos, procfs::idle};
use super::{
    names::Dirs,
    runtime::{CallError, Runtime},
};

/// Maximum age of reused values, as several scrapers often come at the same moment.
const CACHE_PERIOD: Duration = Duration::from_secs(1);
/// How long the first request waits for a second sample.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
/// Timeout of the runtime's lists.
const RUNTIME_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of counting files, as in the kubelet.
const DISK_CACHE_PERIOD: Duration = Duration::from_secs(60);

/// Why usage cannot be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A call to the runtime failed.
    #[error(transparent)]
    Runtime(#[from] CallError),
    /// The runtime did not answer in time.
    #[error("the container runtime did not report the usage of its containers within {} s; is it overloaded?", RUNTIME_TIMEOUT.as_secs())]
    Timeout,
}

/// Usage of the node and its containers at one time, without disks and networks.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    /// Usage of the machine.
    pub(crate) machine: Machine,
    /// CPU usage of the machine.
    pub(crate) cpu: Option<CpuStats>,
    /// CPU usage of this process.
    agent_cpu: Option<CpuStats>,
    /// Usage of pods, sorted by namespace and name.
    pub(crate) pods: Vec<PodStats>,
}

/// Measures usage. There is one for the node.
pub(crate) struct Stats {
    runtime: Runtime,
    dirs: Dirs,
    node_name: String,
    reader: Store<Pod>,
    state: Mutex<State>,
    /// Disk usage by pod uid, and when its files were counted.
    disks: Mutex<HashMap<String, (Instant, Arc<PodDisk>)>>,
    sandboxes: Mutex<SandboxCache>,
}

/// State between two requests.
#[derive(Default)]
struct State {
    rates: Rates,
    last: Option<(Instant, Arc<Usage>)>,
}

impl Stats {
    /// Creates the measurement of this node.
    pub(crate) fn new(runtime: Runtime, dirs: Dirs, node_name: String, reader: Store<Pod>) -> Self {
        Self {
            runtime,
            dirs,
            node_name,
            reader,
            state: Mutex::default(),
            disks: Mutex::default(),
            sandboxes: Mutex::default(),
        }
    }

    /// Returns the current usage.
    pub(crate) async fn usage(&self) -> Result<Arc<Usage>, Error> {
        self.usage_not_older_than(CACHE_PERIOD).await
    }

    /// Returns the kubelet's summary of CPU and memory only, which is fast.
    pub(crate) async fn short_summary(&self) -> Result<Summary, Error> {
        let usage = self.with_rates().await?;
        Ok(self.short(&usage))
    }

    /// Returns the kubelet's full summary.
    pub(crate) async fn summary(&self) -> Result<Summary, Error> {
        let usage = self.with_rates().await?;
        let mut summary = self.short(&usage);
        let extended =
            tokio::time::timeout(RUNTIME_TIMEOUT, self.extend(&mut summary, usage.machine.at));
        extended.await.map_err(|_| Error::Timeout)?;
        Ok(summary)
    }

    /// Returns usage with rates, except for containers that have just started.
    async fn with_rates(&self) -> Result<Arc<Usage>, Error> {
        let usage = self.usage().await?;
        if usage
            .cpu
            .as_ref()
            .is_none_or(|cpu| cpu.usage_nano_cores.is_some())
        {
            return Ok(usage);
        }
        tokio::time::sleep(SAMPLE_INTERVAL).await;
        self.usage_not_older_than(SAMPLE_INTERVAL).await
    }

    async fn usage_not_older_than(&self, age: Duration) -> Result<Arc<Usage>, Error> {
        let mut state = self.state.lock().await;
        if let Some((at, usage)) = &state.last
            && at.elapsed() < age
        {
            return Ok(usage.clone());
        }
        let lists = tokio::time::timeout(RUNTIME_TIMEOUT, self.lists())
            .await
            .map_err(|_| Error::Timeout)??;
        let usage = Arc::new(compute_usage(lists, Machine::read(), &mut state.rates));
        state.last = Some((Instant::now(), usage.clone()));
        Ok(usage)
    }

    async fn lists(&self) -> Result<RuntimeLists, CallError> {
        let (sandboxes, containers, stats) = tokio::try_join!(
            self.runtime.sandboxes(None),
            self.runtime.containers(None),
            self.runtime.container_stats()
        )?;
        Ok(RuntimeLists {
            sandboxes,
            containers,
            stats,
        })
    }

    fn short(&self, usage: &Usage) -> Summary {
        let Machine {
            started,
            memory,
            swap,
            ..
        } = usage.machine.clone();
        let node = NodeStats {
            node_name: self.node_name.clone(),
            system_containers: node::system_containers(usage),
            start_time: started,
            cpu: usage.cpu.clone(),
            memory,
            network: None,
            fs: None,
            runtime: None,
            rlimit: None,
            swap,
        };
        Summary {
            node,
            pods: usage.pods.clone(),
        }
    }
}

/// Computes rates and the pods' total usage. Pure.
fn compute_usage(lists: RuntimeLists, machine: Machine, rates: &mut Rates) -> Usage {
    let now = i64::try_from(machine.at.as_nanosecond()).unwrap_or(i64::MAX);
    let mut pods = pods::from_lists(lists);
    for pod in &mut pods {
        for container in &mut pod.containers {
            if let Some(cpu) = &mut container.cpu {
                let at = i64::try_from(cpu.time.as_nanosecond()).unwrap_or(now);
                cpu.usage_nano_cores = cpu
                    .usage_core_nano_seconds
                    .and_then(|sum| rates.sample(&container.id, at, sum));
            }
        }
        pod.cpu = pods::cpu(
            pod.containers
                .iter()
                .filter_map(|container| container.cpu.as_ref()),
        );
        pod.memory = pods::memory(
            pod.containers
                .iter()
                .filter_map(|container| container.memory.as_ref()),
        );
        pod.swap = pods::swap(
            pod.containers
                .iter()
                .filter_map(|container| container.swap.as_ref()),
        );
    }
    // container ids contain no slash
    let mut cpu = |name, nanos: Option<u64>| {
        nanos.map(|sum| CpuStats {
            time: machine.at,
            usage_nano_cores: rates.sample(name, now, sum),
            usage_core_nano_seconds: Some(sum),
        })
    };
    let node = cpu("/", machine.cpu_nanos);
    let agent_cpu = cpu("/kubelet", machine.agent.map(|agent| agent.cpu_nanos));
    rates.forget_before(now.saturating_sub(rates::MAX_INTERVAL_NANOS));
    Usage {
        machine,
        cpu: node,
        agent_cpu,
        pods,
    }
}
