//! Probes: one task for each probe of a running container that has something to find out now.
//!
//! The controller says which containers run ([`Probes::follow`]) and asks what is known of them ([`Probes::judge`]); a verdict
//! that changes something triggers the pod at once. Results live as long as the container, whatever becomes of its pod's
//! plan; a restart of the agent forgets them, and until there are new ones the last status counts.
//!
//! [`timing`], [`verdict`] and [`target`] decide, [`check`] and below reach into the pod. [`hook`] runs lifecycle hooks, which reach
//! into it the same way.

mod address;
mod check;
mod grpc;
mod hook;
mod http;
mod outcome;
mod tally;
mod target;
#[cfg(test)]
mod tests;
mod timing;
mod verdict;
mod worker;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
};

pub(crate) use self::{
    hook::{HookContainer, run as run_hook},
    tally::ProbeCounts,
};
use self::{target::ProbeTarget, timing::Timing, verdict::ProbeResults, worker::Job};
use super::{
    background::Background,
    events::Recorder,
    observed::{Observed, State},
    pods::trigger::Trigger,
    runtime::Runtime,
    specs,
};

/// What a probe is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProbeKind {
    /// Whether the container has started.
    Startup,
    /// Whether it must be started again.
    Liveness,
    /// Whether it can serve.
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

/// Where probes run and report.
pub(crate) struct Deps {
    /// Runs commands in containers.
    pub(crate) runtime: Runtime,
    /// Told of failures.
    pub(crate) events: Recorder,
    /// Told of verdicts.
    pub(crate) triggers: mpsc::Sender<Trigger>,
    /// Where the tasks of probes run.
    pub(crate) background: Background,
}

/// All probes of the node.
pub(crate) struct Probes {
    deps: Deps,
    pods: Mutex<HashMap<String, PodProbes>>,
}

/// One pod's. Dropping it ends its tasks.
#[derive(Default)]
struct PodProbes {
    /// By container id.
    found: HashMap<String, ProbeResults>,
    /// By container id and kind.
    workers: BTreeMap<(String, ProbeKind), Worker>,
    /// By container name and kind.
    counts: BTreeMap<(String, ProbeKind), ProbeCounts>,
}

/// A task that ends when it is not wanted any more.
struct Worker {
    task: AbortHandle,
    /// What it reaches for, which changes with the address of the pod or of the node.
    target: watch::Sender<Resolved>,
}

/// What a probe does, or why it cannot.
type Resolved = Result<ProbeTarget, String>;

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Probes {
    /// No probes yet.
    pub(crate) fn new(deps: Deps) -> Arc<Self> {
        Arc::new(Self { deps, pods: Mutex::default() })
    }

    /// Notes in `observed` what the probes of the pod have found.
    pub(crate) fn judge(&self, pod: &Pod, observed: &mut Observed) {
        let pods = self.pods.lock();
        let probes = pods.get(pod.metadata.uid.as_deref().unwrap_or_default());
        for (container, last) in containers(pod) {
            let mut all = observed.containers.iter_mut();
            let Some(newest) = all.find(|observed| observed.name == container.name) else { continue };
            let found = probes.and_then(|probes| probes.found.get(&newest.id));
            newest.health = verdict::health(container, &newest.id, found, last);
        }
    }

    /// Starts and ends probes, so that those run that are due for what is `observed` of the pod at this address.
    pub(crate) fn follow(self: &Arc<Self>, pod: &Arc<Pod>, observed: &Observed, pod_ip: &str) {
        let terminating = pod.metadata.deletion_timestamp.is_some();
        let mut due = BTreeMap::new();
        for (container, _) in containers(pod) {
            let Some(running) = observed.latest(&container.name) else { continue };
            let State::Running { started_at } = running.state else { continue };
            for (kind, probe) in verdict::due(container, &running.health, terminating) {
                due.insert((running.id.clone(), kind), (container, probe, started_at));
            }
        }
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let mut pods = self.pods.lock();
        if due.is_empty() && !pods.contains_key(&uid) {
            return;
        }
        let probes = pods.entry(uid).or_default();
        probes.found.retain(|id, _| observed.containers.iter().any(|container| container.id == *id));
        probes.workers.retain(|key, _| due.contains_key(key));
        for (key, (container, probe, started_at)) in due {
            let resolved = ProbeTarget::of(probe, container, pod_ip);
            if let Some(worker) = probes.workers.get(&key) {
                worker.target.send_if_modified(|target| {
                    let moved = *target != resolved;
                    *target = resolved;
                    moved
                });
                continue;
            }
            // What waited for the startup probe has waited long enough.
            let after_startup = container.startup_probe.is_some()
                && probes.found.get(&key.0).is_some_and(|found| found.started);
            let share = if after_startup { 0.0 } else { rand::random() };
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
                    wait: timing.first(started_at, Timestamp::now(), share),
                };
                let task = self.deps.background.spawn(worker::run(self.clone(), job));
                Worker { task: task.abort_handle(), target: sender }
            });
        }
    }

    /// A verdict; whether it is news.
    fn record(&self, uid: &str, id: &str, kind: ProbeKind, success: bool) -> bool {
        let mut pods = self.pods.lock();
        let probes = pods.get_mut(uid);
        probes.is_some_and(|probes| probes.found.entry(id.to_owned()).or_default().record(kind, success))
    }

    /// The pod is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.pods.lock().remove(uid);
    }

    /// Forgets all pods but these.
    pub(crate) fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.pods.lock().retain(|uid, _| keep(uid));
    }
}

/// The containers that may have probes, with their last statuses.
fn containers(pod: &Pod) -> impl Iterator<Item = (&Container, Option<&ContainerStatus>)> {
    let status = pod.status.as_ref();
    specs::containers_of(pod).map(move |container| {
        let last = status.into_iter().flat_map(|status| {
            let mains = status.container_statuses.iter().flatten();
            mains.chain(status.init_container_statuses.iter().flatten())
        });
        (container, last.into_iter().find(|last| last.name == container.name))
    })
}
