//! What pods that are gone left behind: sandboxes and containers with our labels, and directories. Looked for now and then,
//! and at once when a pod went that was not ended, as one whose name has another pod already. Only after the first list
//! of pods is complete, so that a list that was half received never ends a pod. And what was here when the agent started is
//! kept while a store that began empty has not yet got all pods from the cloud: it may be wanted still, and is adopted then.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::Store;
use tokio::sync::{Notify, mpsc, watch};

use super::{entries, removing::Removing};
use crate::{
    edged::{
        Progress,
        background::Background,
        groups::Groups,
        names::{self, Dirs},
        pods::{PodCache, strays, trigger::Trigger},
        probes::Probes,
        runtime::{CallError, Runtime},
        volumes,
    },
    metamanager::PodsComplete,
    rt::Backoff,
};

/// What could not be removed is tried again after this, doubled with each failure …
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// … up to this.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Seconds that a container without a pod has, when it does not say how long it needs.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);
/// Directories are removed in a fraction of this, where the disk answers.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Where orphans are looked for, and what is forgotten of them.
#[derive(Clone)]
pub(in crate::edged) struct Deps {
    /// Has their sandboxes and containers.
    pub(in crate::edged) runtime: Runtime,
    /// Their control groups.
    pub(in crate::edged) groups: Groups,
    /// Where their files are.
    pub(in crate::edged) dirs: Dirs,
    /// The pods that the API has.
    pub(in crate::edged) pods: Store<Pod>,
    /// Whether the API has all pods.
    pub(in crate::edged) pods_complete: PodsComplete,
    /// What is remembered of pods.
    pub(in crate::edged) pod_cache: PodCache,
    /// The probes of all pods.
    pub(in crate::edged) probes: Arc<Probes>,
    /// What is being removed.
    pub(in crate::edged) removing: Removing,
    /// Triggers pods of which something runs that the runtime does not know.
    pub(in crate::edged) triggers: mpsc::Sender<Trigger>,
    /// Where containers are stopped.
    pub(in crate::edged) background: Background,
    /// Told when there may be something to remove.
    pub(in crate::edged) orphaned: Arc<Notify>,
}

impl Deps {
    fn of_strays(&self) -> strays::Deps<'_> {
        let Self { runtime, groups, pods, pod_cache, triggers, .. } = self;
        strays::Deps { runtime, groups, pods, pod_cache, triggers }
    }
}

/// Looks for ever.
pub(in crate::edged) async fn run(deps: Deps, mut progress: watch::Receiver<Progress>, every: Duration) {
    if progress.wait_for(|progress| progress.pods_listed).await.is_err() {
        return;
    }
    let mut kept = None;
    let mut backoff = Backoff::new(FIRST_WAIT, every);
    // A runtime may still be giving up what the last agent had asked for when it was killed, or what it was doing when it was
    // killed itself: orphans are looked for more often at first.
    let mut settling = Backoff::new(FIRST_WAIT, every);
    loop {
        let was_whole = deps.pods_complete.now();
        if let Err(error) = strays::trigger_pods(deps.of_strays()).await {
            tracing::debug!(error = &error as &dyn std::error::Error, "strays are looked for later");
        }
        let wait = match sweep(&deps, &mut kept).await {
            Ok(Remains::Nothing) => {
                backoff.reset();
                settling.next(1.0)
            }
            Ok(Remains::Files) => backoff.next(1.0),
            Err(error) => {
                error.log("orphans are looked for later");
                backoff.next(1.0)
            }
        };
        // Cancel-safe: a wake that is not taken here is taken the next time.
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = deps.orphaned.notified() => settling.reset(),
            // what was kept until now is kept no longer
            () = deps.pods_complete.until(), if !was_whole => {}
        }
    }
}

/// What a sweep could not remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remains {
    Nothing,
    Files,
}

/// The uids that are no orphans.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    /// The pods that the API has.
    known: BTreeSet<String>,
    /// Those that were here at the first sweep, while the API may not have all pods yet.
    kept: BTreeSet<String>,
}

impl Wanted {
    /// What is wanted, when all this is `here` and that was `kept` at the last sweep; `None` before the first.
    fn new(
        known: BTreeSet<String>,
        here: BTreeSet<String>,
        kept: Option<BTreeSet<String>>,
        whole: bool,
    ) -> Self {
        let kept = if whole { BTreeSet::new() } else { kept.unwrap_or(here) };
        // one that the API has got is like any other from then on
        let kept = kept.difference(&known).cloned().collect();
        Self { known, kept }
    }

    fn has(&self, uid: &str) -> bool {
        self.known.contains(uid) || self.kept.contains(uid)
    }
}

/// What is there of each pod: sandboxes, and containers with their grace.
type Found = BTreeMap<String, (Vec<String>, Vec<(String, Duration)>)>;

async fn sweep(deps: &Deps, kept: &mut Option<BTreeSet<String>>) -> Result<Remains, CallError> {
    // The runtime first: a pod is in the store before anything of it is in the runtime.
    let mut found = found(deps).await?;
    let dirs = deps.dirs.clone();
    let on_disk = tokio::task::spawn_blocking(move || (entries(&dirs.pods()), entries(&dirs.logs)));
    let (pod_dirs, log_dirs) = on_disk.await.unwrap_or_default();
    let known: BTreeSet<String> =
        deps.pods.state().iter().filter_map(|pod| pod.metadata.uid.clone()).collect();
    let running: BTreeSet<String> = found.keys().cloned().collect();
    let logged = log_dirs.iter().filter_map(|name| Some(names::pod_of_logs(name)?.2));
    let here = running.iter().chain(&pod_dirs).map(String::as_str).chain(logged).map(str::to_owned).collect();
    let is_unknown = !deps.pods_complete.now();
    let wanted = Wanted::new(known, here, kept.take(), !is_unknown);
    if wanted.kept.is_empty() {
        deps.pods_complete.mark_no_orphans();
    }
    // where a pod is damaged later, what is here then is kept
    *kept = is_unknown.then(|| wanted.kept.clone());
    deps.pod_cache.retain(|uid| wanted.known.contains(uid));
    deps.probes.retain(|uid| wanted.known.contains(uid));
    found.retain(|uid, _| !wanted.has(uid));
    // In the background: one that takes its whole grace period does not keep the others, nor those that come meanwhile.
    for (uid, (sandboxes, containers)) in found {
        if !deps.removing.begin(uid.clone()) {
            continue;
        }
        let task = deps.clone();
        deps.background.spawn(async move {
            tracing::info!(uid, sandboxes = sandboxes.len(), "removing what a pod that is gone left behind");
            let mut backoff = Backoff::new(FIRST_WAIT, MAX_WAIT);
            while let Err(error) = end(&task.runtime, &sandboxes, &containers).await {
                tracing::warn!(uid, error = &error as &dyn std::error::Error, "it is tried again");
                tokio::time::sleep(backoff.next(1.0)).await;
            }
            task.removing.end(&uid);
            // Its files are next.
            task.orphaned.notify_one();
        });
    }
    // Files go after those who may have them open.
    let is_gone = |uid: &str| !running.contains(uid) && !wanted.has(uid);
    let gone = pod_dirs.into_iter().filter(|uid| is_gone(uid)).map(|uid| (uid, None));
    // Other programs may keep other things here: only what has our form.
    let logs =
        log_dirs.iter().filter_map(|name| Some((names::pod_of_logs(name)?.2, deps.dirs.logs.join(name))));
    let logs = logs.filter(|(uid, _)| is_gone(uid)).map(|(uid, logs)| (uid.to_owned(), Some(logs)));
    Ok(clear_all(deps, gone.chain(logs).collect()).await)
}

/// Removes what pods have left on disk, each for itself: where a disk does not answer, the others go all the same.
async fn clear_all(deps: &Deps, gone: Vec<(String, Option<PathBuf>)>) -> Remains {
    let mut left = Remains::Nothing;
    let mut clearing = Vec::new();
    for (uid, logs) in gone {
        let place = logs.clone().unwrap_or_else(|| deps.dirs.pod(&uid)).display().to_string();
        if !deps.removing.begin(place.clone()) {
            left = Remains::Files;
            continue;
        }
        let (dirs, groups, removing) = (deps.dirs.clone(), deps.groups.clone(), deps.removing.clone());
        let pods = deps.pods.clone();
        clearing.push(tokio::task::spawn_blocking(move || {
            // a static pod whose file was put back is the same pod again
            let is_back = pods.state().iter().any(|pod| pod.metadata.uid.as_deref() == Some(&uid));
            let done = if is_back { Ok(()) } else { clear(&dirs, &groups, &uid, logs) };
            removing.end(&place);
            match done {
                Ok(()) => Remains::Nothing,
                Err(error) => {
                    tracing::warn!(uid, error = &*error, "a pod that is gone leaves something behind");
                    Remains::Files
                }
            }
        }));
    }
    match tokio::time::timeout(REMOVE_TIMEOUT, join_all(clearing)).await {
        // A task that cannot be waited for is one of a program that ends.
        Ok(all) if all.iter().all(|one| matches!(one, Ok(Remains::Nothing) | Err(_))) => left,
        Ok(_) => Remains::Files,
        Err(_) => {
            tracing::warn!("a disk does not answer: what pods that are gone left behind is removed later");
            Remains::Files
        }
    }
}

/// The group first: without files, nobody would look for it.
fn clear(
    dirs: &Dirs,
    groups: &Groups,
    uid: &str,
    logs: Option<PathBuf>,
) -> Result<(), Box<dyn std::error::Error>> {
    groups.remove(uid)?;
    match logs {
        Some(logs) => volumes::remove_all(&logs)?,
        None => volumes::tear_down(dirs, uid)?,
    }
    Ok(())
}

async fn found(deps: &Deps) -> Result<Found, CallError> {
    let (sandboxes, containers) =
        tokio::try_join!(deps.runtime.sandboxes(None), deps.runtime.containers(None))?;
    let mut found = Found::new();
    for sandbox in sandboxes {
        if let Some(uid) = sandbox.labels.get(names::POD_UID) {
            found.entry(uid.clone()).or_default().0.push(sandbox.id);
        }
    }
    for container in containers {
        if let Some(uid) = container.labels.get(names::POD_UID) {
            let grace = container.annotations.get(names::GRACE).and_then(|text| text.parse().ok());
            let grace = grace.map_or(DEFAULT_GRACE, Duration::from_secs);
            found.entry(uid.clone()).or_default().1.push((container.id, grace));
        }
    }
    Ok(found)
}

async fn end(
    runtime: &Runtime,
    sandboxes: &[String],
    containers: &[(String, Duration)],
) -> Result<(), CallError> {
    let stops = containers.iter().map(|(id, grace)| runtime.stop_container(id, *grace));
    // all of them: a call that is dropped in its middle begins the container's grace period anew
    join_all(stops).await.into_iter().collect::<Result<(), _>>()?;
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
    use super::*;

    #[test]
    fn what_was_here_at_first_is_kept_until_the_api_has_all_pods() {
        let set = |uids: &[&str]| -> BTreeSet<String> { uids.iter().map(|&uid| uid.to_owned()).collect() };
        // known, here, kept before, whole: kept now
        let table = [
            (set(&[]), set(&["a", "b"]), None, false, set(&["a", "b"])),
            (set(&["a"]), set(&["a", "b"]), None, false, set(&["b"])),
            (set(&["a"]), set(&["a", "b", "new"]), Some(set(&["a", "b"])), false, set(&["b"])),
            (set(&[]), set(&["a", "b"]), Some(set(&["b"])), false, set(&["b"])),
            (set(&["a"]), set(&["a", "b"]), None, true, set(&[])),
            (set(&["a"]), set(&["a", "b"]), Some(set(&["b"])), true, set(&[])),
        ];
        for (known, here, before, whole, kept) in table {
            let wanted = Wanted::new(known.clone(), here.clone(), before, whole);
            assert!(here.iter().all(|uid| wanted.has(uid) == (known.contains(uid) || kept.contains(uid))));
            assert_eq!(wanted, Wanted { known, kept });
        }
    }
}
