//! All reasons to sync pods, as one stream.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use futures::{StreamExt, TryStreamExt, stream::SelectAll};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        PredicateConfig, WatchStreamExt,
        controller::{ReconcileReason, ReconcileRequest, trigger_self},
        reflector::{ObjectRef, Store, store::Writer},
        watcher::{self, Event},
    },
};
use tokio::sync::{Notify, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

use super::{cache::PodCache, trigger::Trigger};
use crate::edged::{
    Progress, plan,
    references::{self, Reference},
};

/// A watch that failed; it is started again by itself.
#[derive(Debug, thiserror::Error)]
#[error("the watch of {kind}")]
pub(super) struct Error {
    kind: &'static str,
    source: Box<watcher::Error>,
}

type Request = Result<ReconcileRequest<Pod>, Error>;
type Requests = futures::stream::BoxStream<'static, Request>;

/// What the stream follows, and whom it wakes when pods went.
#[derive(Clone)]
pub(crate) struct Sources {
    /// The API: pods, ConfigMaps and Secrets.
    pub(crate) client: Client,
    /// The node whose pods these are.
    pub(crate) node_name: String,
    /// What is remembered of pods.
    pub(crate) pod_cache: PodCache,
    /// Wakes whoever waits for a pod to go.
    pub(crate) pod_deleted: Arc<Notify>,
    /// Wakes whoever removes what pods left behind.
    pub(crate) orphaned: Arc<Notify>,
}

/// The stream of all triggers.
pub(super) fn all(
    sources: Sources,
    store: &Store<Pod>,
    writer: Writer<Pod>,
    received: mpsc::Receiver<Trigger>,
    progress: watch::Sender<Progress>,
) -> SelectAll<Requests> {
    let mut all = SelectAll::new();
    all.push(objects::<ConfigMap>(&sources, store, "configmaps", Reference::ConfigMap));
    all.push(objects::<Secret>(&sources, store, "secrets", Reference::Secret));
    all.push(pods(sources, writer, progress));
    let store = store.clone();
    let own = ReceiverStream::new(received).flat_map(move |trigger| {
        let pods = match trigger {
            Trigger::Pod(pod) => vec![pod],
            Trigger::Echo(heard) => {
                heard.notify_one();
                Vec::new()
            }
            Trigger::All => store.state().iter().map(|pod| ObjectRef::from_obj(pod.as_ref())).collect(),
        };
        futures::stream::iter(pods.into_iter().map(|pod| Ok(request(pod, "runtime"))))
    });
    all.push(own.boxed());
    all
}

fn request(obj_ref: ObjectRef<Pod>, reason: &str) -> ReconcileRequest<Pod> {
    ReconcileRequest { obj_ref, reason: ReconcileReason::Custom { reason: reason.into() } }
}

/// This node's pods. What changes nothing for their containers, above all the statuses that this agent itself reports,
/// triggers nothing.
fn pods(sources: Sources, writer: Writer<Pod>, progress: watch::Sender<Progress>) -> Requests {
    let own = watcher::Config::default().fields(&format!("spec.nodeName={}", sources.node_name));
    let mut listed = false;
    let pods = watcher::watcher(Api::<Pod>::all(sources.client.clone()), own)
        .default_backoff()
        .modify(|pod| pod.managed_fields_mut().clear())
        .reflect(writer)
        .inspect_ok(move |event| {
            // Nobody else looks after a pod that went without being ended, or whose name has another one already.
            if matches!(event, Event::Delete(_)) {
                sources.pod_deleted.notify_one();
            }
            if let Event::Delete(pod) = event
                && !sources.pod_cache.has_ended(pod.metadata.uid.as_deref().unwrap_or_default())
            {
                sources.orphaned.notify_one();
            }
            if matches!(event, Event::InitDone) {
                if listed {
                    // No event says what went between two lists.
                    sources.orphaned.notify_one();
                } else {
                    listed = true;
                    progress.send_modify(|progress| progress.pods_listed = true);
                }
            }
        })
        .touched_objects()
        .predicate_filter(fingerprint, PredicateConfig::default());
    trigger_self(pods, ()).map_err(|source| Error { kind: "pods", source: Box::new(source) }).boxed()
}

/// Equal for two versions of a pod between which there is nothing to do.
fn fingerprint(pod: &Pod) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    let meta = &pod.metadata;
    (&meta.uid, &meta.labels, &meta.annotations, meta.deletion_grace_period_seconds).hash(&mut hasher);
    meta.deletion_timestamp.as_ref().map(|at| at.0.as_nanosecond()).hash(&mut hasher);
    // a limit on its time is known only when its status says when it began
    plan::deadline(pod).map(|at| at.as_nanosecond()).hash(&mut hasher);
    gates(pod).for_each(|gate| gate.hash(&mut hasher));
    serde_json::to_vec(&pod.spec).ok()?.hash(&mut hasher);
    Some(hasher.finish())
}

/// What others say of the pod on which its being ready depends.
fn gates(pod: &Pod) -> impl Iterator<Item = (&str, &str)> {
    let gates = pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten());
    gates.filter_map(|gate| {
        let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
        let found = conditions.find(|condition| condition.type_ == gate.condition_type)?;
        Some((found.type_.as_str(), found.status.as_str()))
    })
}

/// The pods that use an object of type `K` which has changed.
fn objects<K>(
    sources: &Sources,
    store: &Store<Pod>,
    kind: &'static str,
    reference: fn(String) -> Reference,
) -> Requests
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug
        + Send
        + 'static,
{
    let (pod_cache, store) = (sources.pod_cache.clone(), store.clone());
    let changed = watcher::watcher(Api::<K>::all(sources.client.clone()), watcher::Config::default())
        .default_backoff()
        .touched_objects();
    changed
        .map_ok(move |object| {
            let (namespace, reference) = (object.namespace(), reference(object.name_any()));
            let users = store
                .state()
                .into_iter()
                .filter(move |pod| pod.metadata.namespace == namespace && references::uses(pod, &reference));
            let requests: Vec<Request> = users
                .map(|pod| {
                    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                    pod_cache.with(uid, |state| state.reconsider());
                    Ok(request(ObjectRef::from_obj(pod.as_ref()), kind))
                })
                .collect();
            futures::stream::iter(requests)
        })
        .map_err(move |source| Error { kind, source: Box::new(source) })
        .try_flatten()
        .boxed()
}
