//! Merges all triggers of pod syncs into one stream.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use futures::{StreamExt, TryStreamExt, stream::SelectAll};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{
    Client, Resource, ResourceExt,
    runtime::{
        PredicateConfig, WatchStreamExt,
        controller::{ReconcileReason, ReconcileRequest, trigger_self},
        reflector::{ObjectRef, Store, store::Writer},
        watcher::{self, Event},
    },
};
use tokio::sync::{Notify, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

use super::cache::PodCache;
use crate::{
    Progress, hold, plan,
    references::{self, Reference},
    trigger::Trigger,
};

/// A failed watch, which restarts by itself.
#[derive(Debug, thiserror::Error)]
#[error("the watch of {kind}")]
pub(super) struct WatchError {
    kind: &'static str,
    source: Box<watcher::Error>,
}

type Request = Result<ReconcileRequest<Pod>, WatchError>;
type RequestStream = futures::stream::BoxStream<'static, Request>;

/// What the stream watches, and what it notifies of deleted pods.
#[derive(Clone)]
pub(crate) struct Sources {
    /// The API: pods, ConfigMaps and Secrets.
    pub(crate) client: Client,
    /// The name of the node whose pods are watched.
    pub(crate) node_name: String,
    /// The state of pods.
    pub(crate) pod_cache: PodCache,
    /// Wakes the tasks that wait for a pod's removal from the API.
    pub(crate) pod_deleted: Arc<Notify>,
    /// Wakes the garbage collection of deleted pods.
    pub(crate) orphaned: Arc<Notify>,
}

/// Returns the stream of all triggers.
pub(super) fn all_triggers(
    sources: Sources,
    store: &Store<Pod>,
    writer: Writer<Pod>,
    received: mpsc::Receiver<Trigger>,
    progress: watch::Sender<Progress>,
) -> SelectAll<RequestStream> {
    let mut all = SelectAll::new();
    all.push(users_of::<ConfigMap>(
        &sources,
        store,
        "configmaps",
        Reference::ConfigMap,
    ));
    all.push(users_of::<Secret>(
        &sources,
        store,
        "secrets",
        Reference::Secret,
    ));
    all.push(pods(sources, writer, progress));
    let store = store.clone();
    let own = ReceiverStream::new(received).flat_map(move |trigger| {
        let pods = match trigger {
            Trigger::Pod(pod) => vec![pod],
            Trigger::Echo(heard) => {
                heard.notify_one();
                Vec::new()
            }
            Trigger::All => store
                .state()
                .iter()
                .map(|pod| ObjectRef::from_obj(pod.as_ref()))
                .collect(),
        };
        futures::stream::iter(pods.into_iter().map(|pod| Ok(request(pod, "runtime"))))
    });
    all.push(own.boxed());
    all
}

fn request(obj_ref: ObjectRef<Pod>, reason: &str) -> ReconcileRequest<Pod> {
    ReconcileRequest {
        obj_ref,
        reason: ReconcileReason::Custom {
            reason: reason.into(),
        },
    }
}

/// Watches this node's pods. Changes that do not concern containers, above all the statuses that this agent reports, trigger
/// nothing.
fn pods(sources: Sources, writer: Writer<Pod>, progress: watch::Sender<Progress>) -> RequestStream {
    let own = watcher::Config::default().fields(&format!("spec.nodeName={}", sources.node_name));
    let mut listed = false;
    let store = writer.as_reader();
    let pods = kubeapi::watch_objects_with_backoff::<Pod>(sources.client.clone(), own)
        .with_last_version(move |namespace, name| {
            let pod = store.get(&ObjectRef::new(name).within(namespace))?;
            Some(Arc::unwrap_or_clone(pod))
        })
        .modify(|pod| pod.managed_fields_mut().clear())
        .reflect(writer)
        .inspect_ok(move |event| {
            // No sync cleans up a pod that was deleted without having ended, or whose name belongs to another pod already.
            if matches!(event, Event::Delete(_)) {
                sources.pod_deleted.notify_one();
            }
            if let Event::Delete(pod) = event
                && !sources
                    .pod_cache
                    .has_ended(pod.metadata.uid.as_deref().unwrap_or_default())
            {
                sources.orphaned.notify_one();
            }
            if matches!(event, Event::InitDone) {
                if listed {
                    // There are no events of pods deleted between two lists.
                    sources.orphaned.notify_one();
                } else {
                    listed = true;
                    progress.send_modify(|progress| progress.pods_listed = true);
                }
            }
        })
        .touched_objects()
        .predicate_filter(fingerprint, PredicateConfig::default());
    trigger_self(pods, ())
        .map_err(|source| WatchError {
            kind: "pods",
            source: Box::new(source),
        })
        .boxed()
}

/// Returns a hash that is equal for two versions of a pod between which there is nothing to do.
fn fingerprint(pod: &Pod) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    let meta = &pod.metadata;
    (
        &meta.uid,
        &meta.labels,
        &meta.annotations,
        meta.deletion_grace_period_seconds,
        hold::is_held(pod),
    )
        .hash(&mut hasher);
    meta.deletion_timestamp
        .as_ref()
        .map(|at| at.0.as_nanosecond())
        .hash(&mut hasher);
    // the active deadline is known only when the status has a start time
    plan::deadline(pod)
        .map(|at| at.as_nanosecond())
        .hash(&mut hasher);
    readiness_gates(pod).for_each(|gate| gate.hash(&mut hasher));
    serde_json::to_vec(&pod.spec).ok()?.hash(&mut hasher);
    Some(hasher.finish())
}

/// Returns the conditions of the pod's readiness gates, which others set.
fn readiness_gates(pod: &Pod) -> impl Iterator<Item = (&str, &str)> {
    let gates = pod
        .spec
        .iter()
        .flat_map(|spec| spec.readiness_gates.iter().flatten());
    gates.filter_map(|gate| {
        let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
        let found = conditions.find(|condition| condition.type_ == gate.condition_type)?;
        Some((found.type_.as_str(), found.status.as_str()))
    })
}

/// Watches objects of type `K` and triggers the pods that use a changed one.
fn users_of<K>(
    sources: &Sources,
    store: &Store<Pod>,
    kind: &'static str,
    reference: fn(String) -> Reference,
) -> RequestStream
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug
        + Send
        + 'static,
{
    let (pod_cache, store) = (sources.pod_cache.clone(), store.clone());
    let (client, all) = (sources.client.clone(), watcher::Config::default());
    let changed = kubeapi::watch_objects_with_backoff::<K>(client, all).touched_objects();
    changed
        .map_ok(move |object| {
            let (namespace, reference) = (object.namespace(), reference(object.name_any()));
            let users = store.state().into_iter().filter(move |pod| {
                pod.metadata.namespace == namespace && references::uses(pod, &reference)
            });
            let requests: Vec<Request> = users
                .map(|pod| {
                    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                    pod_cache.with(uid, |state| state.retry_now());
                    Ok(request(ObjectRef::from_obj(pod.as_ref()), kind))
                })
                .collect();
            futures::stream::iter(requests)
        })
        .map_err(move |source| WatchError {
            kind,
            source: Box::new(source),
        })
        .try_flatten()
        .boxed()
}
