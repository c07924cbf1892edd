//! Pods that were started here and that the API does not have, because its store was begun anew: each is asked for by name, until
//! the API has all pods. A cloud that knows that this node has acknowledged a pod does not send it again by itself. Their sandboxes tell
//! of them, and where nothing runs any more (the node was started anew, too) the directories of their logs. Something of an older pod
//! may be here whose name another one has by now; only where the API has none of that name one is asked for. Where the cloud knows
//! none of them, MetaManager is told: what is here is then nobody's.
//!
//! Source: KubeEdge, SyncController, which compares what was acknowledged and not what is there.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, runtime::reflector::Store};
use tokio::sync::watch;
use tracing::{debug, info};

use super::entries;
use crate::{
    component::is_component,
    edged::{
        Progress,
        names::{self, Dirs},
        runtime::{CallError, Runtime},
    },
    metamanager::PodsComplete,
    rt::Backoff,
};

/// While the cloud is not connected the question costs nothing, and should be answered soon after it is …
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// … but a pod that the cloud does not have is no reason to ask all the time.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Where lost pods are looked for, and whom they are asked of.
pub(in crate::edged) struct Deps {
    /// The API, which asks the cloud for what it does not have.
    pub(in crate::edged) client: Client,
    /// Has their sandboxes.
    pub(in crate::edged) runtime: Runtime,
    /// Where their logs are.
    pub(in crate::edged) dirs: Dirs,
    /// The pods that the API has.
    pub(in crate::edged) pods: Store<Pod>,
    /// Whether the API has all pods.
    pub(in crate::edged) pods_complete: PodsComplete,
}

/// Asks until the API has all pods.
pub(in crate::edged) async fn run(deps: Deps, mut progress: watch::Receiver<Progress>) {
    if progress.wait_for(|progress| progress.pods_listed).await.is_err() {
        return;
    }
    let mut backoff = Backoff::new(FIRST_WAIT, MAX_WAIT);
    while !deps.pods_complete.now() {
        match local_pods(&deps).await {
            Ok(here) => {
                let mut none_is_known = !here.is_empty();
                for (place, uids) in lost(here, &deps.pods) {
                    none_is_known &= ask_api(&deps, &place, &uids).await == Answer::Unknown;
                }
                deps.pods_complete.set_unknown_to_cloud(none_is_known);
            }
            Err(error) => debug!(error = &error as &dyn std::error::Error, "lost pods are looked for later"),
        }
        // Cancel-safe: either only ends the wait.
        tokio::select! {
            () = tokio::time::sleep(backoff.next(1.0)) => {}
            () = deps.pods_complete.until() => {}
        }
    }
}

/// Namespace and name of a pod.
type PodName = (String, String);
/// The pods of which something is here: for each name the UIDs.
type LocalPods = BTreeMap<PodName, BTreeSet<String>>;

async fn local_pods(deps: &Deps) -> Result<LocalPods, CallError> {
    let sandboxes = deps.runtime.sandboxes(None).await?;
    let directory = deps.dirs.logs.clone();
    let logs = tokio::task::spawn_blocking(move || entries(&directory)).await.unwrap_or_default();
    let labelled = sandboxes.iter().filter_map(|sandbox| {
        let label = |name| sandbox.labels.get(name).map(String::as_str);
        Some((label(names::POD_NAMESPACE)?, label(names::POD_NAME)?, label(names::POD_UID)?))
    });
    let logged = logs.iter().filter_map(|name| names::pod_of_logs(name));
    let mut here = LocalPods::new();
    for (namespace, name, uid) in labelled.chain(logged) {
        if is_component(namespace) && is_component(name) {
            here.entry((namespace.to_owned(), name.to_owned())).or_default().insert(uid.to_owned());
        }
    }
    Ok(here)
}

/// Those of them that are not in the API, by UID or under their name.
fn lost(mut here: LocalPods, pods: &Store<Pod>) -> LocalPods {
    for pod in pods.state() {
        let (namespace, name) = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        here.remove(&(namespace.unwrap_or_default(), name.unwrap_or_default()));
    }
    here
}

/// What the cloud says of a pod that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// It is in the API now.
    Known,
    /// The cloud has none of this name for this node.
    Unknown,
    /// There was no answer.
    None,
}

async fn ask_api(deps: &Deps, (namespace, name): &PodName, uids: &BTreeSet<String>) -> Answer {
    match Api::<Pod>::namespaced(deps.client.clone(), namespace).get_opt(name).await {
        Ok(Some(pod)) if is_of(&pod, uids) => {
            info!(namespace, name, "a pod of this node was lost from the store and is there again");
            Answer::Known
        }
        Ok(Some(_)) => {
            debug!(namespace, name, "something of an older pod is here, whose name another one has");
            Answer::Known
        }
        Ok(None) => {
            debug!(namespace, name, "a pod that was here is not in the cloud");
            Answer::Unknown
        }
        Err(error) => {
            debug!(namespace, name, error = &error as &dyn std::error::Error, "it is asked for again");
            Answer::None
        }
    }
}

/// Whether something of this pod was here; of a static pod the file's UID and not the mirror's is.
fn is_of(pod: &Pod, uids: &BTreeSet<String>) -> bool {
    pod.metadata.uid.as_ref().is_some_and(|uid| uids.contains(uid))
}

#[cfg(test)]
mod tests {
    use kube::runtime::{reflector, watcher::Event};
    use serde_json::json;

    use super::*;

    fn pod(name: &str, uid: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": name, "uid": uid}})).unwrap()
    }

    #[test]
    fn what_the_api_has_under_its_name_is_not_lost() {
        let (pods, mut writer) = reflector::store::<Pod>();
        writer.apply_watcher_event(&Event::Apply(pod("web", "new")));
        writer.apply_watcher_event(&Event::Apply(pod("db", "db")));
        let place = |name: &str| ("ns".to_owned(), name.to_owned());
        let uids = |uids: &[&str]| -> BTreeSet<String> { uids.iter().map(|&uid| uid.to_owned()).collect() };
        // logs of an older pod, one that is there, and one that is not
        let here = [
            (place("web"), uids(&["old", "older"])),
            (place("db"), uids(&["db"])),
            (place("gone"), uids(&["gone"])),
        ];
        assert_eq!(lost(here.into(), &pods), [(place("gone"), uids(&["gone"]))].into());
        assert!(is_of(&pod("gone", "gone"), &uids(&["older", "gone"])));
        assert!(!is_of(&pod("gone", "another"), &uids(&["older", "gone"])), "made anew under its name");
    }
}
