//! What the node, its pods and their containers use.
//!
//! Nothing is measured unless somebody asks, and whoever asks right after somebody else gets the same figures. Containers are
//! measured by the runtime, the node by the kernel ([`machine`]), volumes and logs by counting their files, once a minute.
//! How much is used in a second lies between two samples ([`rates`]); the first who asks waits for a second sample.

mod disk;
mod machine;
mod node;
mod pods;
mod procfs;
mod rates;
mod sandboxes;
pub(crate) mod summary;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::Store;
use tokio::sync::Mutex;

use self::{
    disk::PodDisk,
    pods::Lists,
    rates::Rates,
    sandboxes::Sandboxes,
    summary::{CpuStats, NodeStats, PodStats, Summary},
};
pub(crate) use self::{machine::Machine, sandboxes::pid_in};
pub use self::{machine::busy_nanos, procfs::idle};
use super::{
    names::Dirs,
    runtime::{CallError, Runtime},
};

/// Figures of this age are as good as new ones: several scrapers often come at the same moment.
const CACHE_PERIOD: Duration = Duration::from_secs(1);
/// The first who asks waits so long for a second sample.
const WINDOW: Duration = Duration::from_millis(250);
/// A runtime that answers later than this does not answer.
const RUNTIME_TIMEOUT: Duration = Duration::from_secs(10);
/// Files are counted this often at most, as the kubelet does.
const COUNTED: Duration = Duration::from_secs(60);

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The runtime failed.
    #[error(transparent)]
    Runtime(#[from] CallError),
    /// The runtime hangs.
    #[error("the container runtime has not said within {} s what its containers use; is it overloaded?", RUNTIME_TIMEOUT.as_secs())]
    Late,
}

/// What the node and its containers use at one time, without disks and networks.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    /// The node.
    pub(crate) machine: Machine,
    /// Its processors.
    pub(crate) cpu: Option<CpuStats>,
    /// This agent's.
    agent_cpu: Option<CpuStats>,
    /// By namespace and name.
    pub(crate) pods: Vec<PodStats>,
}

/// Measures. One for the node.
pub(crate) struct Stats {
    runtime: Runtime,
    dirs: Dirs,
    node_name: String,
    reader: Store<Pod>,
    state: Mutex<State>,
    /// By the pod's uid, and when its files were counted.
    disks: Mutex<HashMap<String, (Instant, Arc<PodDisk>)>>,
    sandboxes: Mutex<Sandboxes>,
}

/// What is kept between two questions.
#[derive(Default)]
struct State {
    rates: Rates,
    last: Option<(Instant, Arc<Usage>)>,
}

impl Stats {
    /// Measures nothing yet.
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

    /// What is used now.
    pub(crate) async fn usage(&self) -> Result<Arc<Usage>, Error> {
        self.not_older_than(CACHE_PERIOD).await
    }

    /// The kubelet's summary: of processors and memory, without waiting for anything else.
    pub(crate) async fn short_summary(&self) -> Result<Summary, Error> {
        let usage = self.with_rates().await?;
        Ok(self.short(&usage))
    }

    /// The kubelet's summary.
    pub(crate) async fn summary(&self) -> Result<Summary, Error> {
        let usage = self.with_rates().await?;
        let mut summary = self.short(&usage);
        let extended = tokio::time::timeout(RUNTIME_TIMEOUT, self.extend(&mut summary, usage.machine.at));
        extended.await.map_err(|_| Error::Late)?;
        Ok(summary)
    }

    /// Usage in which rates are known, but for what has just begun.
    async fn with_rates(&self) -> Result<Arc<Usage>, Error> {
        let usage = self.usage().await?;
        if usage.cpu.as_ref().is_none_or(|cpu| cpu.usage_nano_cores.is_some()) {
            return Ok(usage);
        }
        tokio::time::sleep(WINDOW).await;
        self.not_older_than(WINDOW).await
    }

    async fn not_older_than(&self, age: Duration) -> Result<Arc<Usage>, Error> {
        let mut state = self.state.lock().await;
        if let Some((at, usage)) = &state.last
            && at.elapsed() < age
        {
            return Ok(usage.clone());
        }
        let lists = tokio::time::timeout(RUNTIME_TIMEOUT, self.lists()).await.map_err(|_| Error::Late)??;
        let usage = Arc::new(measured(lists, Machine::read(), &mut state.rates));
        state.last = Some((Instant::now(), usage.clone()));
        Ok(usage)
    }

    async fn lists(&self) -> Result<Lists, CallError> {
        let (sandboxes, containers, stats) = tokio::try_join!(
            self.runtime.sandboxes(None),
            self.runtime.containers(None),
            self.runtime.container_stats()
        )?;
        Ok(Lists { sandboxes, containers, stats })
    }

    fn short(&self, usage: &Usage) -> Summary {
        let Machine { started, memory, swap, .. } = usage.machine.clone();
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
        Summary { node, pods: usage.pods.clone() }
    }
}

/// Adds how fast things go, and what pods use as a whole. Pure.
fn measured(lists: Lists, machine: Machine, rates: &mut Rates) -> Usage {
    let now = i64::try_from(machine.at.as_nanosecond()).unwrap_or(i64::MAX);
    let mut pods = pods::pods(lists);
    for pod in &mut pods {
        for container in &mut pod.containers {
            if let Some(cpu) = &mut container.cpu {
                let at = i64::try_from(cpu.time.as_nanosecond()).unwrap_or(now);
                cpu.usage_nano_cores =
                    cpu.usage_core_nano_seconds.and_then(|sum| rates.sample(&container.id, at, sum));
            }
        }
        pod.cpu = pods::cpu(pod.containers.iter().filter_map(|container| container.cpu.as_ref()));
        pod.memory = pods::memory(pod.containers.iter().filter_map(|container| container.memory.as_ref()));
        pod.swap = pods::swap(pod.containers.iter().filter_map(|container| container.swap.as_ref()));
    }
    // no container's id is a word with a slash
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
    Usage { machine, cpu: node, agent_cpu, pods }
}
