//! Removes orphans: sandboxes, containers and directories of pods that the API does not have. Sweeps run periodically, and at
//! once when a pod was deleted without having ended, for example because its name belongs to another pod already. They start only
//! after the first list of pods is complete, so that an incomplete list never ends a pod. What was here when the agent started is
//! kept as long as a store that began empty has not received all pods from the cloud, and is adopted then.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use componentbase::{Backoff, PodsComplete};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, runtime::reflector::Store};
use tokio::sync::{Notify, mpsc, watch};

use super::entries;
use crate::{
    Progress,
    background::Background,
    cgroups::Cgroups,
    known_pods::known_pods,
    names::{self, Dirs},
    pods::{PodCache, lost_containers},
    probes::Probes,
    removals::RemovalsInProgress,
    runtime::{CallError, Runtime},
    trigger::Trigger,
    volumes,
};

/// First delay before a failed removal is tried again, doubled with each failure …
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// … up to this maximum.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Grace period of a container without an annotation of its own.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);
/// How long a sweep waits for the removal of directories, which takes a fraction of this on a disk that answers.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(10);

/// What the garbage collection needs.
#[derive(Clone)]
pub(crate) struct Deps {
    /// The API, asked again before anything is removed.
    pub(crate) client: Client,
    /// The container runtime.
    pub(crate) runtime: Runtime,
    /// The pods' control groups.
    pub(crate) groups: Cgroups,
    /// Directories of pods and logs.
    pub(crate) dirs: Dirs,
    /// The pods that the API has.
    pub(crate) pods: Store<Pod>,
    /// Whether the API has all pods.
    pub(crate) pods_complete: PodsComplete,
    /// What EdgeD remembers of pods.
    pub(crate) pod_cache: PodCache,
    /// The probes of all pods.
    pub(crate) probes: Arc<Probes>,
    /// Removals in progress.
    pub(crate) removing: RemovalsInProgress,
    /// Triggers pods that have processes unknown to the runtime.
    pub(crate) triggers: mpsc::Sender<Trigger>,
    /// Runs the stops of containers.
    pub(crate) background: Background,
    /// Notified when there may be something to remove.
    pub(crate) orphaned: Arc<Notify>,
}

impl Deps {
    fn lost_containers_deps(&self) -> lost_containers::Deps<'_> {
        let Self {
            runtime,
            groups,
            pods,
            pod_cache,
            triggers,
            ..
        } = self;
        lost_containers::Deps {
            runtime,
            groups,
            pods,
            pod_cache,
            triggers,
        }
    }
}

/// Sweeps again and again. Never returns once the first list of pods is complete.
pub(crate) async fn run(deps: Deps, mut progress: watch::Receiver<Progress>, every: Duration) {
    if progress
        .wait_for(|progress| progress.pods_listed)
        .await
        .is_err()
    {
        return;
    }
    let mut kept = None;
    let mut backoff = Backoff::new(FIRST_WAIT, every);
    // A runtime may still be aborting calls of a killed agent, or resuming after having been killed itself: sweeps are more
    // frequent at first.
    let mut settling = Backoff::new(FIRST_WAIT, every);
    loop {
        let was_complete = deps.pods_complete.now();
        if let Err(error) = lost_containers::trigger_pods(deps.lost_containers_deps()).await {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "failed to look for lost containers; retrying"
            );
        }
        let wait = match Box::pin(sweep(&deps, &mut kept)).await {
            Ok(SweepResult::Clean) => {
                backoff.reset();
                settling.next(1.0)
            }
            Ok(SweepResult::FilesLeft) => backoff.next(1.0),
            Err(error) => {
                error.log("list orphaned pods; retrying");
                backoff.next(1.0)
            }
        };
        // cancel-safe: a notification that is not taken here is taken the next time.
        clock::select! {
            () = tokio::time::sleep(wait) => {}
            () = deps.orphaned.notified() => settling.reset(),
            // what was kept until now need not be kept any more
            () = deps.pods_complete.until(), if !was_complete => {}
        }
    }
}

/// Whether a sweep removed all orphans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SweepResult {
    Clean,
    FilesLeft,
}

/// The uids of pods that are not orphans.
#[derive(Debug, PartialEq, Eq)]
struct RetainedPods {
    /// The pods that the API has.
    known: BTreeSet<String>,
    /// Pods that were here at the first sweep, while the API may not have all pods yet.
    kept: BTreeSet<String>,
}

impl RetainedPods {
    /// Decides which pods are not orphans. `here` are the pods of which something exists, `kept` those that the last sweep kept,
    /// `None` before the first; `is_complete` says that the API has all pods.
    fn new(
        known: BTreeSet<String>,
        here: BTreeSet<String>,
        kept: Option<BTreeSet<String>>,
        is_complete: bool,
    ) -> Self {
        let kept = if is_complete {
            BTreeSet::new()
        } else {
            kept.unwrap_or(here)
        };
        // a pod that the API has received needs no special treatment any more
        let kept = kept.difference(&known).cloned().collect();
        Self { known, kept }
    }

    fn contains(&self, uid: &str) -> bool {
        self.known.contains(uid) || self.kept.contains(uid)
    }
}

/// Sandboxes of a pod, and containers with their grace periods.
#[derive(Default)]
struct PodItems {
    sandboxes: Vec<String>,
    containers: Vec<(String, Duration)>,
}

async fn sweep(deps: &Deps, kept: &mut Option<BTreeSet<String>>) -> Result<SweepResult, CallError> {
    // The runtime is listed first: a pod is in the store before anything of it is in the runtime.
    let mut found = list_by_pod(deps).await?;
    let dirs = deps.dirs.clone();
    let on_disk =
        componentbase::spawn_blocking(move || (entries(&dirs.pods()), entries(&dirs.logs)));
    let (pod_dirs, log_dirs) = on_disk.await.unwrap_or_default();
    let running: BTreeSet<String> = found.keys().cloned().collect();
    let logged = log_dirs
        .iter()
        .filter_map(|name| Some(names::pod_of_logs(name)?.2));
    let here: BTreeSet<String> = running
        .iter()
        .chain(&pod_dirs)
        .map(String::as_str)
        .chain(logged)
        .map(str::to_owned)
        .collect();
    let (client, pods, complete) = (&deps.client, &deps.pods, &deps.pods_complete);
    let retained = match retained_pods((client, pods, complete), here, kept).await {
        Ok(retained) => retained,
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "failed to list pods; cleanup of deleted pods postponed"
            );
            return Ok(SweepResult::FilesLeft);
        }
    };
    deps.pod_cache.retain(|uid| retained.known.contains(uid));
    deps.probes.retain(|uid| retained.known.contains(uid));
    found.retain(|uid, _| !retained.contains(uid));
    // In the background: a container that takes its whole grace period does not delay the others.
    for (
        uid,
        PodItems {
            sandboxes,
            containers,
        },
    ) in found
    {
        if !deps.removing.begin(uid.clone()) {
            continue;
        }
        let task = deps.clone();
        deps.background.spawn(async move {
            tracing::info!(
                uid,
                sandboxes = sandboxes.len(),
                "removing sandboxes of a deleted pod"
            );
            let mut backoff = Backoff::new(FIRST_WAIT, MAX_WAIT);
            while let Err(error) = stop_and_remove(&task.runtime, &sandboxes, &containers).await {
                tracing::warn!(
                    uid,
                    error = &error as &dyn std::error::Error,
                    "failed to delete sandbox; retrying"
                );
                tokio::time::sleep(backoff.next(1.0)).await;
            }
            task.removing.end(&uid);
            // Its files are removed next.
            task.orphaned.notify_one();
        });
    }
    // Files are removed after the processes that may have them open.
    let is_gone = |uid: &str| !running.contains(uid) && !retained.contains(uid);
    let gone = pod_dirs
        .into_iter()
        .filter(|uid| is_gone(uid))
        .map(|uid| (uid, None));
    // Only directories in our form are removed; others may belong to other programs.
    let logs = log_dirs
        .iter()
        .filter_map(|name| Some((names::pod_of_logs(name)?.2, deps.dirs.logs.join(name))));
    let logs = logs
        .filter(|(uid, _)| is_gone(uid))
        .map(|(uid, logs)| (uid.to_owned(), Some(logs)));
    Ok(remove_files(deps, gone.chain(logs).collect()).await)
}

/// Returns the pods that are not orphans. `here` are the pods of which something exists, `kept` those that the last sweep kept.
async fn retained_pods(
    (client, pods, complete): (&Client, &Store<Pod>, &PodsComplete),
    here: BTreeSet<String>,
    kept: &mut Option<BTreeSet<String>>,
) -> Result<RetainedPods, kube::Error> {
    let was_complete = complete.now();
    // until the API has all pods, those that are here are kept without asking it
    let asked = if was_complete {
        &here
    } else {
        &BTreeSet::new()
    };
    let known = known_pods((client, pods), asked, |_| true).await?;
    let is_complete = was_complete && complete.now();
    let retained = RetainedPods::new(known, here, kept.take(), is_complete);
    if retained.kept.is_empty() {
        complete.mark_no_orphans();
    }
    // if the store loses a pod later, what is here then is kept
    *kept = (!is_complete).then(|| retained.kept.clone());
    Ok(retained)
}

/// Removes the files of deleted pods, each in its own task: if one disk does not answer, the others are removed all the same.
async fn remove_files(deps: &Deps, gone: Vec<(String, Option<PathBuf>)>) -> SweepResult {
    let mut result = SweepResult::Clean;
    let mut removals = Vec::new();
    for (uid, logs) in gone {
        let place = logs
            .clone()
            .unwrap_or_else(|| deps.dirs.pod(&uid))
            .display()
            .to_string();
        if !deps.removing.begin(place.clone()) {
            result = SweepResult::FilesLeft;
            continue;
        }
        let (dirs, groups, removing) = (
            deps.dirs.clone(),
            deps.groups.clone(),
            deps.removing.clone(),
        );
        let pods = deps.pods.clone();
        removals.push(componentbase::spawn_blocking(move || {
            // a static pod whose file was put back is the same pod again
            let is_back = pods
                .state()
                .iter()
                .any(|pod| pod.metadata.uid.as_deref() == Some(&uid));
            let done = if is_back {
                Ok(())
            } else {
                remove_pod(&dirs, &groups, &uid, logs)
            };
            removing.end(&place);
            match done {
                Ok(()) => SweepResult::Clean,
                Err(error) => {
                    tracing::warn!(uid, error = &*error, "failed to clean up a deleted pod");
                    SweepResult::FilesLeft
                }
            }
        }));
    }
    match tokio::time::timeout(REMOVE_TIMEOUT, join_all(removals)).await {
        // Waiting for a task fails only when the program ends.
        Ok(all)
            if all
                .iter()
                .all(|one| matches!(one, Ok(SweepResult::Clean) | Err(_))) =>
        {
            result
        }
        Ok(_) => SweepResult::FilesLeft,
        Err(_) => {
            tracing::warn!("disk not responding; cleanup of deleted pods postponed");
            SweepResult::FilesLeft
        }
    }
}

/// Removes the control group and files of a pod. The group is removed first: without files, the pod would not be found again.
fn remove_pod(
    dirs: &Dirs,
    groups: &Cgroups,
    uid: &str,
    logs: Option<PathBuf>,
) -> Result<(), Box<dyn std::error::Error>> {
    groups.remove(uid)?;
    match logs {
        Some(logs) => volumes::remove(&logs)?,
        None => volumes::tear_down(dirs, uid)?,
    }
    Ok(())
}

async fn list_by_pod(deps: &Deps) -> Result<BTreeMap<String, PodItems>, CallError> {
    let (sandboxes, containers) =
        tokio::try_join!(deps.runtime.sandboxes(None), deps.runtime.containers(None))?;
    let mut found = BTreeMap::<String, PodItems>::new();
    for sandbox in sandboxes {
        if let Some(uid) = sandbox.labels.get(names::POD_UID) {
            found
                .entry(uid.clone())
                .or_default()
                .sandboxes
                .push(sandbox.id);
        }
    }
    for container in containers {
        if let Some(uid) = container.labels.get(names::POD_UID) {
            let grace = container
                .annotations
                .get(names::TERMINATION_GRACE_PERIOD)
                .and_then(|text| text.parse().ok());
            let grace = grace.map_or(DEFAULT_GRACE, Duration::from_secs);
            found
                .entry(uid.clone())
                .or_default()
                .containers
                .push((container.id, grace));
        }
    }
    Ok(found)
}

async fn stop_and_remove(
    runtime: &Runtime,
    sandboxes: &[String],
    containers: &[(String, Duration)],
) -> Result<(), CallError> {
    let stops = containers
        .iter()
        .map(|(id, grace)| runtime.stop_container(id, *grace));
    // waits for all: a call that is dropped would begin the container's grace period anew when repeated
    join_all(stops)
        .await
        .into_iter()
        .collect::<Result<(), _>>()?;
    for (id, _) in containers {
        runtime.remove_container(id).await?;
    }
    for id in sandboxes {
        runtime.stop_sandbox(id).await?;
        runtime.remove_sandbox(id).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::Full;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn pod_that_only_the_api_has_is_not_an_orphan() {
        let list = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [{"metadata": {"name": "web", "uid": "web"}}]});
        let api = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            let list = list.to_string();
            async {
                Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(Bytes::from(list))))
            }
        });
        let client = Client::new(api, "default");
        // what follows the API has received nothing yet
        let (pods, _writer) = kube::runtime::reflector::store::<Pod>();
        let (publisher, complete) = PodsComplete::new(objectstore::Damaged::default());
        publisher.complete.send_replace(true);
        let here = BTreeSet::from(["web".to_owned(), "gone".to_owned()]);
        let retained = retained_pods((&client, &pods, &complete), here, &mut None)
            .await
            .unwrap();
        assert!(
            retained.contains("web") && !retained.contains("gone"),
            "{retained:?}"
        );
    }

    #[test]
    fn initial_pods_are_kept_until_the_api_has_all_pods() {
        let set = |uids: &[&str]| -> BTreeSet<String> {
            uids.iter().map(|&uid| uid.to_owned()).collect()
        };
        // known, here, kept before, is complete: kept now
        let table = [
            (set(&[]), set(&["a", "b"]), None, false, set(&["a", "b"])),
            (set(&["a"]), set(&["a", "b"]), None, false, set(&["b"])),
            (
                set(&["a"]),
                set(&["a", "b", "new"]),
                Some(set(&["a", "b"])),
                false,
                set(&["b"]),
            ),
            (
                set(&[]),
                set(&["a", "b"]),
                Some(set(&["b"])),
                false,
                set(&["b"]),
            ),
            (set(&["a"]), set(&["a", "b"]), None, true, set(&[])),
            (
                set(&["a"]),
                set(&["a", "b"]),
                Some(set(&["b"])),
                true,
                set(&[]),
            ),
        ];
        for (known, here, before, is_complete, kept) in table {
            let retained = RetainedPods::new(known.clone(), here.clone(), before, is_complete);
            assert!(
                here.iter().all(
                    |uid| retained.contains(uid) == (known.contains(uid) || kept.contains(uid))
                )
            );
            assert_eq!(retained, RetainedPods { known, kept });
        }
    }
}
