//! Pods that were started here and that the API does not have, because its store was begun anew: each is asked for by name, until
//! the API has all pods. A cloud that knows that this node has acknowledged a pod does not send it again by itself. Their sandboxes tell
//! of them, and where nothing runs any more (the node was started anew, too) the directories of their logs.
//!
//! Source: KubeEdge, SyncController, which compares what was acknowledged and not what is there.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, runtime::reflector::Store};
use tokio::sync::watch;
use tracing::{debug, info};

use super::{Progress, names, orphans::entries, pods::Context, runtime::CallError};
use crate::{component::is_component, rt::Backoff};

/// While the cloud is not connected the question costs nothing, and should be answered soon after it is …
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// … but a pod that the cloud does not have is no reason to ask all the time.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Asks until the API has all pods.
pub(super) async fn run(context: Arc<Context>, pods: Store<Pod>, mut progress: watch::Receiver<Progress>) {
    if progress.wait_for(|progress| progress.pods_listed).await.is_err() {
        return;
    }
    let mut backoff = Backoff::new(FIRST_WAIT, MAX_WAIT);
    while !context.pods_whole.now() {
        match lost(&context, &pods).await {
            Ok(lost) => {
                for (namespace, name) in lost {
                    ask(&context, &namespace, &name).await;
                }
            }
            Err(error) => debug!(error = &error as &dyn std::error::Error, "lost pods are looked for later"),
        }
        // Cancel-safe: either only ends the wait.
        tokio::select! {
            () = tokio::time::sleep(backoff.next(1.0)) => {}
            () = context.pods_whole.until() => {}
        }
    }
}

/// Namespace and name of the pods that have a sandbox or logs here and are not in the API.
async fn lost(context: &Context, pods: &Store<Pod>) -> Result<BTreeSet<(String, String)>, CallError> {
    let sandboxes = context.runtime.sandboxes(None).await?;
    let directory = context.dirs.logs.clone();
    let logs = tokio::task::spawn_blocking(move || entries(&directory)).await.unwrap_or_default();
    let known: BTreeSet<String> = pods.state().iter().filter_map(|pod| pod.metadata.uid.clone()).collect();
    let labelled = sandboxes.iter().filter_map(|sandbox| {
        let label = |name| sandbox.labels.get(name).map(String::as_str);
        Some((label(names::POD_NAMESPACE)?, label(names::POD_NAME)?, label(names::POD_UID)?))
    });
    let logged = logs.iter().filter_map(|name| names::pod_of_logs(name));
    let unknown = labelled.chain(logged).filter(|(_, _, uid)| !known.contains(*uid));
    let places = unknown.filter(|(space, name, _)| is_component(space) && is_component(name));
    Ok(places.map(|(namespace, name, _)| (namespace.to_owned(), name.to_owned())).collect())
}

async fn ask(context: &Context, namespace: &str, name: &str) {
    match Api::<Pod>::namespaced(context.client.clone(), namespace).get_opt(name).await {
        Ok(Some(_)) => {
            info!(namespace, name, "a pod of this node was lost from the store and is there again")
        }
        Ok(None) => debug!(namespace, name, "a pod that was here is not in the cloud"),
        Err(error) => {
            debug!(namespace, name, error = &error as &dyn std::error::Error, "it is asked for again")
        }
    }
}
