//! Static pods: pods from files of this node, which need no cloud. In: a folder of manifests. Out: pods in the API, marked by
//! annotations, which the controller runs like any others; what shows them to the cloud is MetaManager's business.
//!
//! A look reads all files and compares them with the pods that are stored; a change in the folder only shortens the wait for
//! the next look. A file that changes is another pod, which starts when the old one has ended.
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
    Api,
    api::{DeleteParams, ListParams, PostParams, Preconditions},
};

use self::{
    changes::{Change, changes},
    folder::{Files, Watch},
};
use super::{
    api_message, convert,
    events::{Severity, reason},
    pods::Context,
};

/// After the API failed.
const RETRY: Duration = Duration::from_secs(1);

/// Where static pods come from.
#[derive(Clone, Debug)]
pub struct StaticPods {
    /// The folder of manifests, or one of them.
    pub path: PathBuf,
    /// How often it is looked at although nothing told of a change.
    pub every: Duration,
}

/// Follows the folder for ever.
pub(super) async fn run(context: Arc<Context>, source: StaticPods) {
    let mut told = BTreeMap::new();
    loop {
        // Before the look, and a new one each time: what changes after it is told, and the folder may be another.
        let watch = Watch::new(&source.path).ok();
        let wait = match look(&context, &source.path, &mut told).await {
            Ok(()) => source.every,
            Err(error) => {
                tracing::warn!(path = %source.path.display(), error, "static pods stay as they are");
                RETRY
            }
        };
        tokio::select! {
            // Cancel-safe, all three: each only shortens the wait for the next look at everything.
            () = changed(watch.as_ref()) => {}
            () = context.gone.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// A folder that is not there, or cannot be watched, is only looked at now and then.
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
async fn look(context: &Context, path: &Path, told: &mut BTreeMap<String, String>) -> Result<(), String> {
    let (folder, node) = (path.to_owned(), context.node_name.clone());
    let read = tokio::task::spawn_blocking(move || folder::read(&folder, &node)).await;
    let mut files = read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let all = Api::<Pod>::all(context.client.clone());
    let own = ListParams::default().fields(&format!("spec.nodeName={}", context.node_name));
    let stored = all.list(&own).await.map_err(|error| api_message(&error))?.items;
    let mut taken = Vec::new();
    for change in changes(&files, &stored) {
        match change {
            Change::Create(pod) => create(context, pod).await?,
            Change::End(pod) => end(context, pod).await?,
            Change::Taken(file) => taken.push(file.to_owned()),
        }
    }
    for file in taken {
        files.bad.insert(file, "the node has a pod of its name already, which is not from a file".into());
    }
    tell(context, path, &files, told);
    Ok(())
}

async fn create(context: &Context, pod: &Pod) -> Result<(), String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let api = Api::<Pod>::namespaced(context.client.clone(), namespace);
    match api.create(&PostParams::default(), pod).await {
        Ok(_) => tracing::info!(namespace, name = pod.metadata.name, "a static pod begins"),
        // since a moment ago: the next look sees it
        Err(kube::Error::Api(answer)) if answer.code == 409 => {}
        Err(error) => return Err(api_message(&error)),
    }
    Ok(())
}

async fn end(context: &Context, pod: &Pod) -> Result<(), String> {
    let (namespace, name) = (pod.metadata.namespace.as_deref(), pod.metadata.name.as_deref());
    let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
    let params = DeleteParams {
        // none at all would take the pod away before its containers have ended
        grace_period_seconds: Some(u32::try_from(convert::grace_seconds(pod)).unwrap_or(u32::MAX).max(1)),
        preconditions: Some(Preconditions { uid: pod.metadata.uid.clone(), resource_version: None }),
        ..DeleteParams::default()
    };
    match Api::<Pod>::namespaced(context.client.clone(), namespace).delete(name, &params).await {
        Ok(_) => tracing::info!(namespace, name, "a static pod ends: its file is gone or another"),
        Err(kube::Error::Api(answer)) if answer.code == 404 || answer.code == 409 => {}
        Err(error) => return Err(api_message(&error)),
    }
    Ok(())
}

/// Tells of files that are bad, once for each thing that is wrong with them.
fn tell(context: &Context, path: &Path, files: &Files, told: &mut BTreeMap<String, String>) {
    for (file, why) in files.bad.iter().filter(|(file, why)| told.get(*file) != Some(why)) {
        tracing::warn!(folder = %path.display(), file, why, "a manifest of a static pod is not taken");
        let text = format!("Static pod manifest {file} is not taken: {why}");
        context.events.node(&context.node_name, Severity::Warning, reason::INVALID_STATIC_POD, text);
    }
    told.clone_from(&files.bad);
}
