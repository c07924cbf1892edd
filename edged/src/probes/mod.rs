//! Probes: one task for each probe of a running container that is due now.
//!
//! The pod controller reports which containers run ([`Probes::sync`]) and reads the results ([`Probes::apply`]); a changed result
//! triggers the pod at once. Results are kept as long as the container exists. They are lost at a restart of the agent; until
//! there are new ones, the last reported status is used.
//!
//! [`timing`], [`results`] and [`target`] decide; [`check`] and the modules that it uses connect to the pod. [`hook`] runs
//! lifecycle hooks, which connect in the same way.

mod address;
mod check;
mod counts;
mod grpc;
mod hook;
mod http;
mod outcome;
mod results;
mod target;
#[cfg(test)]
mod tests;
mod timing;
mod worker;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
};

pub(crate) use self::{
    counts::ProbeCounts,
    hook::{HookContainer, run as run_hook},
};
use self::{results::ProbeResults, target::ProbeTarget, timing::Timing, worker::Job};
use super::{
    background::Background,
    events::Recorder,
    observed::{ObservedPod, ObservedState},
    runtime::Runtime,
    specs,
    trigger::Trigger,
};

/// The kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProbeKind {
    /// Checks whether the container has started.
    Startup,
    /// Checks whether the container must be restarted.
    Liveness,
    /// Checks whether the container can serve.
    Readiness,
}

impl fmt::Display for ProbeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProbeKind::Startup => "Startup",
            ProbeKind::Liveness => "Liveness",
            ProbeKind::Readiness => "Readiness",
        })
    }
}

/// What probes need.
pub(crate) struct Deps {
    /// The container runtime, which runs commands in containers.
    pub(crate) runtime: Runtime,
    /// Records failures.
    pub(crate) events: Recorder,
    /// Triggers pods when a result changes.
    pub(crate) triggers: mpsc::Sender<Trigger>,
    /// Runs the tasks of probes.
    pub(crate) background: Background,
}

/// All probes of the node.
pub(crate) struct Probes {
    deps: Deps,
    pods: Mutex<HashMap<String, PodProbes>>,
}

/// The probes of a pod. Dropping it ends their tasks.
#[derive(Default)]
struct PodProbes {
    /// Results by container id.
    results: HashMap<String, ProbeResults>,
    /// Tasks by container id and kind.
    workers: BTreeMap<(String, ProbeKind), Worker>,
    /// Counters by container name and kind.
    counts: BTreeMap<(String, ProbeKind), ProbeCounts>,
}

/// The task of a probe, which is aborted on drop.
struct Worker {
    task: AbortHandle,
    /// The target of the probe, which changes with the IP address of the pod or of the node.
    target: watch::Sender<Resolved>,
}

/// The target of a probe, or why it cannot be resolved.
type Resolved = Result<ProbeTarget, String>;

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Probes {
    /// Returns an empty set of probes.
    pub(crate) fn new(deps: Deps) -> Arc<Self> {
        Arc::new(Self {
            deps,
            pods: Mutex::default(),
        })
    }

    /// Adds the results of the pod's probes to `observed`.
    pub(crate) fn apply(&self, pod: &Pod, observed: &mut ObservedPod) {
        let pods = self.pods.lock();
        let probes = pods.get(pod.metadata.uid.as_deref().unwrap_or_default());
        for (container, last) in containers(pod) {
            let mut all = observed.containers.iter_mut();
            let Some(newest) = all.find(|observed| observed.name == container.name) else {
                continue;
            };
            let found = probes.and_then(|probes| probes.results.get(&newest.id));
            newest.health = results::health(container, &newest.id, found, last);
        }
    }

    /// Starts and ends tasks, so that those probes run that are due for the `observed` pod at this IP address.
    pub(crate) fn sync(self: &Arc<Self>, pod: &Arc<Pod>, observed: &ObservedPod, pod_ip: &str) {
        let terminating = pod.metadata.deletion_timestamp.is_some();
        let mut due = BTreeMap::new();
        for (container, _) in containers(pod) {
            let Some(running) = observed.latest(&container.name) else {
                continue;
            };
            let ObservedState::Running { started_at } = running.state else {
                continue;
            };
            for (kind, probe) in results::due(container, &running.health, terminating) {
                due.insert((running.id.clone(), kind), (container, probe, started_at));
            }
        }
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let mut pods = self.pods.lock();
        if due.is_empty() && !pods.contains_key(&uid) {
            return;
        }
        let probes = pods.entry(uid).or_default();
        probes.results.retain(|id, _| {
            observed
                .containers
                .iter()
                .any(|container| container.id == *id)
        });
        probes.workers.retain(|key, _| due.contains_key(key));
        for (key, (container, probe, started_at)) in due {
            let resolved = ProbeTarget::of(probe, container, pod_ip);
            if let Some(worker) = probes.workers.get(&key) {
                worker.target.send_if_modified(|target| {
                    let changed = *target != resolved;
                    *target = resolved;
                    changed
                });
                continue;
            }
            // Other probes begin at once after the startup probe has succeeded.
            let after_startup = container.startup_probe.is_some()
                && probes
                    .results
                    .get(&key.0)
                    .is_some_and(|found| found.started);
            let share = if after_startup {
                0.0
            } else {
                clock::rng().random()
            };
            probes.workers.entry(key).or_insert_with_key(|(id, kind)| {
                let timing = Timing::of(probe);
                let (sender, target) = watch::channel(resolved);
                let job = Job {
                    pod: pod.clone(),
                    container: container.name.clone(),
                    id: id.clone(),
                    kind: *kind,
                    target,
                    timing,
                    wait: timing.first(started_at, clock::now(), share),
                };
                let task = self.deps.background.spawn(worker::run(self.clone(), job));
                Worker {
                    task: task.abort_handle(),
                    target: sender,
                }
            });
        }
    }

    /// Stores a result and reports whether it changed anything.
    fn record(&self, uid: &str, id: &str, kind: ProbeKind, success: bool) -> bool {
        let mut pods = self.pods.lock();
        let probes = pods.get_mut(uid);
        probes.is_some_and(|probes| {
            probes
                .results
                .entry(id.to_owned())
                .or_default()
                .record(kind, success)
        })
    }

    /// Removes the probes of a pod that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.pods.lock().remove(uid);
    }

    /// Removes the probes of all pods except these.
    pub(crate) fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.pods.lock().retain(|uid, _| keep(uid));
    }
}

/// Returns the containers that may have probes, with their last statuses.
fn containers(pod: &Pod) -> impl Iterator<Item = (&Container, Option<&ContainerStatus>)> {
    let status = pod.status.as_ref();
    specs::containers_of(pod).map(move |container| {
        let last = status.into_iter().flat_map(|status| {
            let mains = status.container_statuses.iter().flatten();
            mains.chain(status.init_container_statuses.iter().flatten())
        });
        (
            container,
            last.into_iter().find(|last| last.name == container.name),
        )
    })
}
