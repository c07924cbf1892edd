//! Removes everything of all pods from this machine: containers, control groups, volumes and logs. Used when the machine stops
//! being a node; no agent runs then.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use futures::{
    Stream, StreamExt,
    stream::{self, FuturesUnordered},
};
use wire::{cri, text::with_causes};

use super::entries;
use crate::settings::ControlGroups;
use crate::{
    RuntimeChannel,
    cgroups::Cgroups,
    names::{self, Dirs},
    runtime::{CallError, Runtime},
    volumes,
};

/// Maximum grace period of a container: the kubelet's default.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// The time between two reports while pods end.
const REPORT_INTERVAL: Duration = Duration::from_secs(3);
/// How many pods without containers are removed at a time: each takes its network away, and plugins of networks lock each other out.
const PARALLEL_REMOVALS: usize = 4;
/// Entries of a pod's directory, including those of EdgeCore and kubelets.
const POD_DIR_ENTRIES: [&str; 5] = [
    "containers",
    "etc-hosts",
    "plugins",
    "volume-subpaths",
    "volumes",
];

/// How far the end of pods has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndProgress {
    /// This many pods are asked to end, and may take this long.
    Begun {
        /// The number of pods.
        pods: usize,
        /// The longest grace period of their containers.
        grace: Duration,
    },
    /// Pods without containers are being removed.
    Removing {
        /// How many have been removed.
        removed: usize,
        /// How many there were.
        of: usize,
    },
    /// Containers are still running.
    Waiting {
        /// How many have ended.
        stopped: usize,
        /// How many there were.
        of: usize,
    },
}

/// What was removed.
#[derive(Debug, Default)]
pub struct RemovedPods {
    /// Pods by namespace and name, as the runtime or their logs name them.
    pub pods: BTreeSet<String>,
    /// What could not be removed, each with the reason.
    pub failed: Vec<String>,
}

/// Returns the uids of the pods that have files in `root`.
pub fn pods_on_disk(root: &Path, logs: &Path) -> BTreeSet<String> {
    let dirs = Dirs {
        root: root.to_owned(),
        logs: logs.to_owned(),
        secrets_in_memory: true,
    };
    entries(&dirs.pods())
        .into_iter()
        .filter(|uid| is_pod_directory(&dirs.pod(uid)))
        .collect()
}

/// Reports whether a directory contains only what a pod's directory may. Directories of other programs are not removed.
fn is_pod_directory(directory: &Path) -> bool {
    let has = entries(directory);
    has.iter()
        .all(|name| POD_DIR_ENTRIES.contains(&name.as_str()))
}

/// Pods in the runtime.
#[derive(Debug)]
pub struct FoundPods {
    runtime: Runtime,
    sandboxes: Vec<cri::PodSandbox>,
    containers: Vec<cri::Container>,
}

/// Finds the sandboxes and containers of all pods in the runtime, or of the pods in `only`.
///
/// # Errors
/// The runtime does not answer, or returns an error.
pub async fn find_pods(
    channel: RuntimeChannel,
    only: Option<&BTreeSet<String>>,
) -> Result<FoundPods, CallError> {
    let is_own = |labels: &BTreeMap<String, String>| {
        labels
            .get(names::POD_UID)
            .is_some_and(|uid| only.is_none_or(|only| only.contains(uid)))
    };
    let runtime = Runtime::new(channel, None);
    let (mut sandboxes, mut containers) =
        tokio::try_join!(runtime.sandboxes(None), runtime.containers(None))?;
    sandboxes.retain(|one| is_own(&one.labels));
    containers.retain(|one| is_own(&one.labels));
    Ok(FoundPods {
        runtime,
        sandboxes,
        containers,
    })
}

/// Stops and removes these sandboxes and containers, with at most the grace period `longest` each. Returns the pods' names by uid.
/// `report` is called before they are asked to end, and every [`REPORT_INTERVAL`] while some have not.
///
/// # Errors
/// The runtime does not answer, or returns an error.
pub async fn end_pods(
    found: FoundPods,
    longest: Duration,
    mut report: impl FnMut(EndProgress),
) -> Result<BTreeMap<String, String>, CallError> {
    let FoundPods {
        runtime,
        sandboxes,
        containers,
    } = found;
    let mut pods = BTreeMap::new();
    let containers: Vec<_> = containers
        .into_iter()
        .map(|one| (grace(&one.annotations).min(longest), one))
        .collect();
    let uids: BTreeSet<_> = sandboxes
        .iter()
        .filter_map(|one| one.labels.get(names::POD_UID))
        .collect();
    let grace = containers
        .iter()
        .map(|(grace, _)| *grace)
        .max()
        .unwrap_or_default();
    report(EndProgress::Begun {
        pods: uids.len(),
        grace,
    });
    let of = containers.len();
    let stops = containers.into_iter().map(|(grace, container)| {
        let runtime = runtime.clone();
        async move {
            runtime.stop_container(&container.id, grace).await?;
            runtime.remove_container(&container.id).await
        }
    });
    wait_for(stops.collect::<FuturesUnordered<_>>(), |stopped| {
        report(EndProgress::Waiting { stopped, of })
    })
    .await?;
    let of = sandboxes.len();
    let mut removals = Vec::new();
    for sandbox in sandboxes {
        let Some(uid) = sandbox.labels.get(names::POD_UID) else {
            continue;
        };
        let label = |key| sandbox.labels.get(key).map_or("", String::as_str);
        let pod = format!("{}/{}", label(names::POD_NAMESPACE), label(names::POD_NAME));
        pods.insert(uid.clone(), pod);
        let runtime = runtime.clone();
        removals.push(async move {
            runtime.stop_sandbox(&sandbox.id).await?;
            runtime.remove_sandbox(&sandbox.id).await
        });
    }
    let removals = stream::iter(removals).buffer_unordered(PARALLEL_REMOVALS);
    wait_for(removals, |removed| {
        report(EndProgress::Removing { removed, of })
    })
    .await?;
    Ok(pods)
}

/// Waits until all `stops` have ended; `report` is called with the number of those that have, every [`REPORT_INTERVAL`].
async fn wait_for(
    mut stops: impl Stream<Item = Result<(), CallError>> + Unpin,
    mut report: impl FnMut(usize),
) -> Result<(), CallError> {
    let (mut stopped, mut failed) = (0, None);
    let mut ticks = tokio::time::interval(REPORT_INTERVAL);
    ticks.reset();
    loop {
        clock::select! {
            // cancel-safe: futures stay in the set until they are done
            ended = stops.next() => match ended {
                Some(Ok(())) => stopped += 1,
                Some(Err(error)) => failed = failed.or(Some(error)),
                None => return failed.map_or(Ok(()), Err),
            },
            // cancel-safe: a tick that is not seen comes again
            _ = ticks.tick() => report(stopped),
        }
    }
}

/// Returns how long a container with these annotations may take to end.
fn grace(annotations: &BTreeMap<String, String>) -> Duration {
    let grace = annotations
        .get(names::TERMINATION_GRACE_PERIOD)
        .and_then(|text| text.parse().ok());
    grace
        .map_or(DEFAULT_GRACE, Duration::from_secs)
        .min(DEFAULT_GRACE)
}

/// Removes pods' files and control groups. `ended` holds pods by uid; more may be found on disk, of which `only` selects some. Mounts are
/// unmounted first, and nothing is removed through a mount. Blocks on the disk.
pub fn remove_pod_files(
    root: &Path,
    logs: &Path,
    groups: ControlGroups,
    channel: RuntimeChannel,
    (ended, only): (BTreeMap<String, String>, Option<BTreeSet<String>>),
) -> RemovedPods {
    let is_own = |uid: &str| only.as_ref().is_none_or(|only| only.contains(uid));
    let dirs = Dirs {
        root: root.to_owned(),
        logs: logs.to_owned(),
        secrets_in_memory: true,
    };
    let groups = Cgroups::new(groups, Runtime::new(channel, None), 0);
    let mut removed = RemovedPods {
        pods: ended.values().cloned().collect(),
        ..RemovedPods::default()
    };
    let mut record_failure = |what: Result<(), String>| removed.failed.extend(what.err());
    let on_disk = pods_on_disk(root, logs);
    let on_disk = on_disk.into_iter().filter(|uid| is_own(uid));
    let uids: BTreeSet<String> = ended.into_keys().chain(on_disk).collect();
    for uid in uids {
        record_failure(groups.remove(&uid).map_err(|error| with_causes(&error)));
        record_failure(volumes::tear_down(&dirs, &uid).map_err(|error| with_causes(&error)));
    }
    // groups that are not empty belong to others
    let _ = groups.remove_classes();
    for log in entries(logs)
        .iter()
        .filter(|name| names::pod_of_logs(name).is_some_and(|(_, _, uid)| is_own(uid)))
    {
        record_failure(volumes::remove(&logs.join(log)).map_err(|error| with_causes(&error)));
    }
    crate::log_links::remove_dangling(&dirs);
    for folder in [dirs.log_links(), dirs.pods(), dirs.logs, dirs.root] {
        // directories with files of others stay
        let _ = std::fs::remove_dir(folder);
    }
    removed
}
