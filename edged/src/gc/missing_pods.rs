//! Finds pods that run here and that the API does not have because its store was created again, and requests each of them by name
//! until the API has all pods. A cloud that knows that this node has acknowledged a pod does not send it again by itself. Pods
//! are found by their sandboxes and, after a reboot, by their log directories. These may belong to an older pod whose name
//! another pod has by now, so a pod is requested only if the API has none of that name. If the cloud knows none of them,
//! MetaManager is notified, and they are orphans.
//!
//! Source: KubeEdge, SyncController, which compares what was acknowledged and not what is there.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use componentbase::{Backoff, PodsComplete};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, runtime::reflector::Store};
use tokio::sync::watch;
use tracing::{debug, info};
use wire::names::is_path_component;

use super::entries;
use crate::{
    Progress,
    names::{self, Dirs},
    runtime::{CallError, Runtime},
};

/// First delay between requests. While the cloud is not connected a request costs nothing, and should be answered soon after it
/// is.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Maximum delay between requests, for pods that the cloud does not have.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// What the search for lost pods needs.
pub(crate) struct Deps {
    /// The API, which requests from the cloud what it does not have.
    pub(crate) client: Client,
    /// The container runtime, which lists sandboxes.
    pub(crate) runtime: Runtime,
    /// Directories of pods and logs.
    pub(crate) dirs: Dirs,
    /// The pods that the API has.
    pub(crate) pods: Store<Pod>,
    /// Whether the API has all pods.
    pub(crate) pods_complete: PodsComplete,
}

/// Requests lost pods until the API has all pods.
pub(crate) async fn run(deps: Deps, mut progress: watch::Receiver<Progress>) {
    if progress
        .wait_for(|progress| progress.pods_listed)
        .await
        .is_err()
    {
        return;
    }
    let mut backoff = Backoff::new(FIRST_WAIT, MAX_WAIT);
    while !deps.pods_complete.now() {
        match local_pods(&deps).await {
            Ok(here) => {
                let mut none_is_known = !here.is_empty();
                for (pod, uids) in missing(here, &deps.pods) {
                    none_is_known &=
                        Box::pin(look_up(&deps, &pod, &uids)).await == LookupResult::NotFound;
                }
                deps.pods_complete.set_unknown_to_cloud(none_is_known);
            }
            Err(error) => debug!(
                error = &error as &dyn std::error::Error,
                "failed to look for lost pods; retrying"
            ),
        }
        // cancel-safe: both only end the wait.
        clock::select! {
            () = tokio::time::sleep(backoff.next(1.0)) => {}
            () = deps.pods_complete.until() => {}
        }
    }
}

/// Namespace and name of a pod.
type PodName = (String, String);
/// Pods of which something is on this machine: the uids by name.
type LocalPods = BTreeMap<PodName, BTreeSet<String>>;

async fn local_pods(deps: &Deps) -> Result<LocalPods, CallError> {
    let sandboxes = deps.runtime.sandboxes(None).await?;
    let directory = deps.dirs.logs.clone();
    let logs = componentbase::spawn_blocking(move || entries(&directory))
        .await
        .unwrap_or_default();
    let labelled = sandboxes.iter().filter_map(|sandbox| {
        let label = |name| sandbox.labels.get(name).map(String::as_str);
        Some((
            label(names::POD_NAMESPACE)?,
            label(names::POD_NAME)?,
            label(names::POD_UID)?,
        ))
    });
    let logged = logs.iter().filter_map(|name| names::pod_of_logs(name));
    let mut here = LocalPods::new();
    for (namespace, name, uid) in labelled.chain(logged) {
        if is_path_component(namespace) && is_path_component(name) {
            here.entry((namespace.to_owned(), name.to_owned()))
                .or_default()
                .insert(uid.to_owned());
        }
    }
    Ok(here)
}

/// Returns the pods of `here` whose names the API does not have.
fn missing(mut here: LocalPods, pods: &Store<Pod>) -> LocalPods {
    for pod in pods.state() {
        let (namespace, name) = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        here.remove(&(namespace.unwrap_or_default(), name.unwrap_or_default()));
    }
    here
}

/// The result of requesting a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LookupResult {
    /// The API has the pod now.
    Found,
    /// The cloud has no pod of this name for this node.
    NotFound,
    /// The cloud did not answer.
    NoAnswer,
}

async fn look_up(
    deps: &Deps,
    (namespace, name): &PodName,
    uids: &BTreeSet<String>,
) -> LookupResult {
    match Api::<Pod>::namespaced(deps.client.clone(), namespace)
        .get_opt(name)
        .await
    {
        Ok(Some(pod)) if has_uid(&pod, uids) => {
            info!(namespace, name, "pod lost from the store fetched again");
            LookupResult::Found
        }
        Ok(Some(_)) => {
            debug!(
                namespace,
                name, "sandbox of an older pod of the same name found"
            );
            LookupResult::Found
        }
        Ok(None) => {
            debug!(namespace, name, "pod no longer exists in the cloud");
            LookupResult::NotFound
        }
        Err(error) => {
            debug!(
                namespace,
                name,
                error = &error as &dyn std::error::Error,
                "failed to fetch a lost pod; retrying"
            );
            LookupResult::NoAnswer
        }
    }
}

/// Reports whether this pod has one of the `uids`. A static pod's sandboxes have the uid of its file, not that of the mirror pod.
fn has_uid(pod: &Pod, uids: &BTreeSet<String>) -> bool {
    pod.metadata
        .uid
        .as_ref()
        .is_some_and(|uid| uids.contains(uid))
}

#[cfg(test)]
mod tests {
    use kube::runtime::{reflector, watcher::Event};
    use serde_json::json;

    use super::*;

    fn pod(name: &str, uid: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": name, "uid": uid}}))
            .unwrap()
    }

    #[test]
    fn pods_that_the_api_has_by_name_are_not_missing() {
        let (pods, mut writer) = reflector::store::<Pod>();
        writer.apply_watcher_event(&Event::Apply(pod("web", "new")));
        writer.apply_watcher_event(&Event::Apply(pod("db", "db")));
        let place = |name: &str| ("ns".to_owned(), name.to_owned());
        let uids = |uids: &[&str]| -> BTreeSet<String> {
            uids.iter().map(|&uid| uid.to_owned()).collect()
        };
        // logs of an older pod, one that is there, and one that is not
        let here = [
            (place("web"), uids(&["old", "older"])),
            (place("db"), uids(&["db"])),
            (place("gone"), uids(&["gone"])),
        ];
        assert_eq!(
            missing(here.into(), &pods),
            [(place("gone"), uids(&["gone"]))].into()
        );
        assert!(has_uid(&pod("gone", "gone"), &uids(&["older", "gone"])));
        assert!(
            !has_uid(&pod("gone", "another"), &uids(&["older", "gone"])),
            "made anew under its name"
        );
    }
}
