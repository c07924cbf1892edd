//! All that pods have on this machine, taken away for good: containers, control groups, volumes, logs. For a machine that is to
//! be no node any more; no agent runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use futures::future::join_all;
use tonic::transport::Channel;

use super::entries;
use crate::config::ControlGroups;
use crate::edged::{
    groups::Groups,
    names::{self, Dirs},
    runtime::{CallError, Runtime},
    volumes, with_causes,
};

/// The longest that one container is given to end: the kubelet's default.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// What a pod's directory has, EdgeCore's and kubelets' included.
const OF_PODS: [&str; 5] = ["containers", "etc-hosts", "plugins", "volume-subpaths", "volumes"];

/// What went.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    /// Pods by namespace and name, as the runtime or their logs know them.
    pub(crate) pods: BTreeSet<String>,
    /// What could not be removed, each with the reason.
    pub(crate) failed: Vec<String>,
}

/// The pods of a node in `root`, by their uids, as far as they have anything on disk.
pub(crate) fn pods_on_disk(root: &Path, logs: &Path) -> BTreeSet<String> {
    let dirs = Dirs { root: root.to_owned(), logs: logs.to_owned(), secrets_in_memory: true };
    entries(&dirs.pods()).into_iter().filter(|uid| is_pods(&dirs.pod(uid))).collect()
}

/// Whether a directory has nothing that a pod's has not: what somebody else keeps beside them is not to be removed.
fn is_pods(directory: &Path) -> bool {
    let has = entries(directory);
    has.iter().all(|name| OF_PODS.contains(&name.as_str()))
}

/// Ends and forgets every sandbox and container of pods in the runtime, or of those pods `only`; the uids of the pods, with their names.
///
/// # Errors
/// The runtime does not answer, or refuses.
pub(crate) async fn end_pods(
    channel: Channel,
    only: Option<&BTreeSet<String>>,
) -> Result<BTreeMap<String, String>, CallError> {
    let is_own = |labels: &BTreeMap<String, String>| {
        labels.get(names::POD_UID).is_some_and(|uid| only.is_none_or(|only| only.contains(uid)))
    };
    let runtime = Runtime::new(channel, None);
    let (sandboxes, containers) = tokio::try_join!(runtime.sandboxes(None), runtime.containers(None))?;
    let mut pods = BTreeMap::new();
    let containers = containers.into_iter().filter(|one| is_own(&one.labels));
    let stops = containers.map(|container| {
        let grace = container.annotations.get(names::GRACE).and_then(|text| text.parse().ok());
        let grace = grace.map_or(DEFAULT_GRACE, Duration::from_secs).min(DEFAULT_GRACE);
        let runtime = runtime.clone();
        async move {
            runtime.stop_container(&container.id, grace).await?;
            runtime.remove_container(&container.id).await
        }
    });
    join_all(stops).await.into_iter().collect::<Result<(), _>>()?;
    for sandbox in sandboxes.into_iter().filter(|one| is_own(&one.labels)) {
        let Some(uid) = sandbox.labels.get(names::POD_UID) else { continue };
        let label = |key| sandbox.labels.get(key).map_or("", String::as_str);
        let pod = format!("{}/{}", label(names::POD_NAMESPACE), label(names::POD_NAME));
        pods.insert(uid.clone(), pod);
        runtime.stop_sandbox(&sandbox.id).await?;
        runtime.remove_sandbox(&sandbox.id).await?;
    }
    Ok(pods)
}

/// Removes what pods have on disk, and their control groups. `ended`: pods by their uids, of which there may be more on disk. What
/// is mounted is unmounted first; nothing is removed through a mount. Blocks on the disk.
pub(crate) fn clear(
    root: &Path,
    logs: &Path,
    groups: ControlGroups,
    channel: Channel,
    ended: BTreeMap<String, String>,
) -> Removed {
    let dirs = Dirs { root: root.to_owned(), logs: logs.to_owned(), secrets_in_memory: true };
    let groups = Groups::new(groups, Runtime::new(channel, None), 0);
    let mut left = Removed { pods: ended.values().cloned().collect(), ..Removed::default() };
    let mut note = |what: Result<(), String>| left.failed.extend(what.err());
    let uids: BTreeSet<String> = ended.into_keys().chain(pods_on_disk(root, logs)).collect();
    for uid in uids {
        note(groups.remove(&uid).map_err(|error| with_causes(&error)));
        note(volumes::tear_down(&dirs, &uid).map_err(|error| with_causes(&error)));
    }
    // what holds anything is somebody else's
    let _ = groups.remove_classes();
    for log in entries(logs).iter().filter(|name| names::pod_of_logs(name).is_some()) {
        note(volumes::remove_all(&logs.join(log)).map_err(|error| with_causes(&error)));
    }
    crate::edged::links::remove_dead(&dirs);
    for folder in [dirs.log_links(), dirs.pods(), dirs.logs, dirs.root] {
        // what somebody else has put there stays
        let _ = std::fs::remove_dir(folder);
    }
    left
}
