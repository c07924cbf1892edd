//! Static pods: pods from files of this node, which need no cloud. In: a folder of manifests. Out: pods in the API, marked by
//! annotations, which the controller runs like any others; what shows them to the cloud is MetaManager's business.
//!
//! A sync reads all files and compares them with the pods that are stored; a change in the folder only shortens the wait for
//! the next sync. A file that changes is another pod, which starts when the old one has ended.
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

use tokio::sync::Notify;

use self::{
    changes::{Change, changes},
    folder::{Files, Watch},
};
use super::{
    api_message, convert,
    events::{Recorder, Severity, reason},
};

/// After the API failed, manifests and pods are compared again after this.
const API_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Where static pods come from.
#[derive(Clone, Debug)]
pub struct StaticPods {
    /// The folder of manifests, or one of them.
    pub path: PathBuf,
    /// How often it is read although nothing told of a change.
    pub every: Duration,
}

/// Where static pods are made, and whom they are told to.
pub(super) struct Deps {
    /// The API.
    pub(super) client: Client,
    /// The node's name.
    pub(super) node_name: String,
    /// Records manifests that are not taken.
    pub(super) events: Recorder,
    /// Told when a pod is gone from the API.
    pub(super) pod_deleted: Arc<Notify>,
}

/// Follows the folder for ever.
pub(super) async fn run(deps: Deps, source: StaticPods) {
    let mut reported = BTreeMap::new();
    loop {
        // Before the sync, and a new one each time: what changes after it is told, and the folder may be another.
        let watch = Watch::new(&source.path).ok();
        let wait = match sync(&deps, &source.path, &mut reported).await {
            Ok(()) => source.every,
            Err(error) => {
                tracing::warn!(path = %source.path.display(), error, "static pods stay as they are");
                API_RETRY_DELAY
            }
        };
        tokio::select! {
            // Cancel-safe, all three: each only shortens the wait for the next sync.
            () = changed(watch.as_ref()) => {}
            () = deps.pod_deleted.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// A folder that is not there, or cannot be watched, is only read now and then.
async fn changed(watch: Option<&Watch>) {
    let told = match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    };
    if told.is_err() {
        std::future::pending().await
    }
}

/// Reads the files and brings what is stored in line with them.
async fn sync(deps: &Deps, path: &Path, reported: &mut BTreeMap<String, String>) -> Result<(), String> {
    let (folder, node) = (path.to_owned(), deps.node_name.clone());
    let read = tokio::task::spawn_blocking(move || folder::read(&folder, &node)).await;
    let mut files = read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let all = Api::<Pod>::all(deps.client.clone());
    let own = ListParams::default().fields(&format!("spec.nodeName={}", deps.node_name));
    let stored = all.list(&own).await.map_err(|error| api_message(&error))?.items;
    let mut taken = Vec::new();
    for change in changes(&files, &stored) {
        match change {
            Change::Create(pod) => create(deps, pod).await?,
            Change::End(pod) => end(deps, pod).await?,
            Change::Taken(file) => taken.push(file.to_owned()),
        }
    }
    for file in taken {
        files.bad.insert(file, "the node has a pod of its name already, which is not from a file".into());
    }
    report(deps, path, &files, reported);
    Ok(())
}

async fn create(deps: &Deps, pod: &Pod) -> Result<(), String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let api = Api::<Pod>::namespaced(deps.client.clone(), namespace);
    match api.create(&PostParams::default(), pod).await {
        Ok(_) => tracing::info!(namespace, name = pod.metadata.name, "a static pod begins"),
        // Since a moment ago: the next sync sees it.
        Err(kube::Error::Api(answer)) if answer.code == 409 => {}
        Err(error) => return Err(api_message(&error)),
    }
    Ok(())
}

async fn end(deps: &Deps, pod: &Pod) -> Result<(), String> {
    let (namespace, name) = (pod.metadata.namespace.as_deref(), pod.metadata.name.as_deref());
    let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
    let params = DeleteParams {
        // none at all would take the pod away before its containers have ended
        grace_period_seconds: Some(u32::try_from(convert::grace_seconds(pod)).unwrap_or(u32::MAX).max(1)),
        preconditions: Some(Preconditions { uid: pod.metadata.uid.clone(), resource_version: None }),
        ..DeleteParams::default()
    };
    match Api::<Pod>::namespaced(deps.client.clone(), namespace).delete(name, &params).await {
        Ok(_) => tracing::info!(namespace, name, "a static pod ends: its file is gone or another"),
        Err(kube::Error::Api(answer)) if answer.code == 404 || answer.code == 409 => {}
        Err(error) => return Err(api_message(&error)),
    }
    Ok(())
}

/// Reports files that are bad, once for each thing that is wrong with them.
fn report(deps: &Deps, path: &Path, files: &Files, reported: &mut BTreeMap<String, String>) {
    for (file, why) in files.bad.iter().filter(|(file, why)| reported.get(*file) != Some(why)) {
        tracing::warn!(folder = %path.display(), file, why, "a manifest of a static pod is not taken");
        let text = format!("Static pod manifest {file} is not taken: {why}");
        deps.events.node(&deps.node_name, Severity::Warning, reason::INVALID_STATIC_POD, text);
    }
    reported.clone_from(&files.bad);
}
