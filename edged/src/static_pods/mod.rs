//! Static pods: pods from manifest files of this node, which need no cloud. They are created in the API, marked by annotations,
//! and run by the controller like any others. MetaServer shows them to the cloud as mirror pods.
//!
//! A sync reads all files and compares them with the stored pods; a change in the folder only triggers the next sync earlier. A
//! changed file defines another pod, which starts when the old one has ended.
//!
//! Source: Kubernetes, "Create static Pods"; the kubelet's file source.

mod changes;
mod folder;
mod manifest;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams, Preconditions},
};
use kubeapi::LenientObject;
use tokio::sync::Notify;

use self::{
    changes::{Change, changes},
    folder::{Files, FolderWatch},
};
use super::{
    api_message, convert,
    events::{EventType, Recorder, reason},
    shutdown_status,
};

/// Delay of the next sync after an error of the API.
const API_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The source of static pods.
#[derive(Clone, Debug)]
pub struct StaticPods {
    /// The folder of manifests, or a single manifest.
    pub path: PathBuf,
    /// Interval of reading it without any change reported.
    pub every: Duration,
}

/// What static pods need.
pub(super) struct Deps {
    /// The API.
    pub(super) client: Client,
    /// The node's name.
    pub(super) node_name: String,
    /// Records invalid manifests.
    pub(super) events: Recorder,
    /// Notified when a pod is gone from the API.
    pub(super) pod_deleted: Arc<Notify>,
}

/// Syncs static pods with the folder. Never returns.
pub(super) async fn run(deps: Deps, source: StaticPods) {
    let mut reported = BTreeMap::new();
    while let Err(error) = Box::pin(delete_shut_down(&deps)).await {
        tracing::warn!(
            error,
            "failed to delete static pods that a shutdown has terminated; retrying"
        );
        tokio::time::sleep(API_RETRY_DELAY).await;
    }
    loop {
        // Created before each sync, so that changes after the sync are reported, and anew each time, as the folder may have been
        // replaced.
        let watch = FolderWatch::new(&source.path).ok();
        let wait = match Box::pin(sync(&deps, &source.path, &mut reported)).await {
            Ok(()) => source.every,
            Err(error) => {
                tracing::warn!(path = %source.path.display(), error, "failed to sync static pods; retrying");
                API_RETRY_DELAY
            }
        };
        clock::select! {
            // cancel-safe: each only shortens the wait for the next sync.
            () = changed(watch.as_ref()) => {}
            () = deps.pod_deleted.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Deletes static pods that the last shutdown of the machine has terminated, so that they are created again: no controller does.
async fn delete_shut_down(deps: &Deps) -> Result<(), String> {
    let own = ListParams::default().fields(&format!("spec.nodeName={}", deps.node_name));
    let all = Api::<LenientObject<Pod>>::all(deps.client.clone());
    let stored = all.list(&own).await.map_err(|error| api_message(&error))?;
    for pod in stored.into_iter().filter_map(|pod| pod.into_decoded().ok()) {
        let reason = pod
            .status
            .as_ref()
            .and_then(|status| status.reason.as_deref());
        if changes::is_static(&pod) && reason == Some(shutdown_status::TERMINATED_REASON) {
            // its containers have ended
            delete(deps, &pod, 0).await?;
        }
    }
    Ok(())
}

/// Waits for a change of the folder; forever if it cannot be watched.
async fn changed(watch: Option<&FolderWatch>) {
    let result = match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    };
    if result.is_err() {
        std::future::pending().await
    }
}

/// Reads the files and brings the stored pods in line with them.
async fn sync(
    deps: &Deps,
    path: &Path,
    reported: &mut BTreeMap<String, String>,
) -> Result<(), String> {
    let (folder, node) = (path.to_owned(), deps.node_name.clone());
    let read = componentbase::spawn_blocking(move || folder::read(&folder, &node)).await;
    let mut files = read
        .map_err(|error| error.to_string())?
        .map_err(|error| error.to_string())?;
    let all = Api::<LenientObject<Pod>>::all(deps.client.clone());
    let own = ListParams::default().fields(&format!("spec.nodeName={}", deps.node_name));
    let stored = all.list(&own).await.map_err(|error| api_message(&error))?;
    // of one that cannot be decoded, the name is taken
    let named = |pod: LenientObject<Pod>| {
        pod.into_decoded().unwrap_or_else(|error| Pod {
            metadata: error.metadata,
            ..Pod::default()
        })
    };
    let stored: Vec<_> = stored.into_iter().map(named).collect();
    let mut conflicting = Vec::new();
    for change in changes(&files, &stored) {
        match change {
            Change::Create(pod) => create(deps, pod).await?,
            Change::Delete(pod) => {
                // a grace period of 0 would remove the pod before its containers have ended
                let grace = u32::try_from(convert::grace_seconds(pod)).unwrap_or(u32::MAX);
                delete(deps, pod, grace.max(1)).await?;
            }
            Change::NameConflict(file) => conflicting.push(file.to_owned()),
        }
    }
    for file in conflicting {
        files.invalid.insert(
            file,
            "the node has a pod of its name already, which is not from a file".into(),
        );
    }
    report(deps, path, &files, reported);
    Ok(())
}

async fn create(deps: &Deps, pod: &Pod) -> Result<(), String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let api = Api::<Pod>::namespaced(deps.client.clone(), namespace);
    match api.create(&PostParams::default(), pod).await {
        Ok(_) => tracing::info!(namespace, name = pod.metadata.name, "static pod started"),
        // It was created just now; the next sync sees it.
        Err(kube::Error::Api(answer)) if answer.code == 409 => {}
        Err(error) => return Err(api_message(&error)),
    }
    Ok(())
}

async fn delete(deps: &Deps, pod: &Pod, grace_seconds: u32) -> Result<(), String> {
    let (namespace, name) = (
        pod.metadata.namespace.as_deref(),
        pod.metadata.name.as_deref(),
    );
    let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
    let params = DeleteParams {
        grace_period_seconds: Some(grace_seconds),
        preconditions: Some(Preconditions {
            uid: pod.metadata.uid.clone(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match Api::<Pod>::namespaced(deps.client.clone(), namespace)
        .delete(name, &params)
        .await
    {
        Ok(_) => tracing::info!(
            namespace,
            name,
            "static pod stopped: its file was deleted or replaced, or the machine was shut down"
        ),
        Err(kube::Error::Api(answer)) if answer.code == 404 || answer.code == 409 => {}
        Err(error) => return Err(api_message(&error)),
    }
    Ok(())
}

/// Records each invalid file once per reason.
fn report(deps: &Deps, path: &Path, files: &Files, reported: &mut BTreeMap<String, String>) {
    for (file, why) in files
        .invalid
        .iter()
        .filter(|(file, why)| reported.get(*file) != Some(why))
    {
        tracing::warn!(folder = %path.display(), file, error = why, "static pod manifest invalid; ignored");
        let text = format!("Static pod manifest {file} is not taken: {why}");
        deps.events.node(
            &deps.node_name,
            EventType::Warning,
            reason::INVALID_STATIC_POD,
            text,
        );
    }
    reported.clone_from(&files.invalid);
}
