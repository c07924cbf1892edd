//! The control loop: a work queue of objects, and a reconciliation for each.

use std::{fmt::Debug, future::Future, pin::Pin, sync::Arc, time::Duration};

use clock::Instant;

use crate::controllers::reconciler::{Action, reconcile_all};
use futures::{Stream, StreamExt, stream};
use kube::{
    Resource,
    runtime::{
        reflector::{self, ObjectRef},
        watcher::Event,
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{Change, Informer, metrics::WorkQueue};
use crate::controllers::{
    panics::{catch_panic_in, catch_panics},
    requeue::{CONFLICT_RETRY_INTERVAL, ERROR_RETRY_INTERVAL, due, is_conflict},
};

/// A reconciliation failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// An API call failed.
    #[error("the API server refused to write the object")]
    Api(#[from] kube::Error),
    /// The object is invalid.
    #[error("{0}")]
    Invalid(String),
}

impl Failure {
    /// Reports whether it is a conflict: the other write is about to arrive.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Api(error) if is_conflict(error))
    }

    /// Logs it, and returns the wait before `controller` tries again. `object` is what it worked on, empty if that is not known.
    pub(crate) fn log_and_wait(&self, controller: &str, object: &str) -> Duration {
        let error = self as &dyn std::error::Error;
        if self.is_conflict() {
            debug!(
                controller,
                object, error, "object has changed meanwhile; retrying"
            );
            return CONFLICT_RETRY_INTERVAL;
        }
        if let Some(times) = due(&format!("{controller} {object} {self}")) {
            warn!(
                controller,
                object, times, error, "failed to reconcile object; retrying"
            );
        }
        ERROR_RETRY_INTERVAL
    }
}

/// What triggers a reconciliation besides the objects themselves.
pub(crate) struct Triggers<K: Resource> {
    streams: Vec<Pin<Box<dyn Stream<Item = ObjectRef<K>> + Send>>>,
}

impl<K: Resource<DynamicType = ()> + Send + 'static> Triggers<K> {
    /// Creates triggers with nothing but the objects themselves.
    pub(crate) fn none() -> Self {
        Self {
            streams: Vec::new(),
        }
    }

    /// Adds changes of `informer`'s objects, for the objects that `concerned` returns.
    pub(crate) fn and<Other, I>(
        mut self,
        informer: &Informer<Other>,
        concerned: impl Fn(&Change<Other>) -> I + Send + 'static,
    ) -> Self
    where
        Other:
            Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        let changes = ReceiverStream::new(informer.listen());
        let refs = changes.flat_map(move |change| {
            // it is found again by another change, or after a restart
            let found = || concerned(&change).into_iter().collect::<Vec<_>>();
            let object = change.object.meta().name.as_deref().unwrap_or_default();
            stream::iter(catch_panic_in(K::kind(&()).as_ref(), object, found).unwrap_or_default())
        });
        self.streams.push(Box::pin(refs));
        self
    }

    /// Adds changes of objects that are controlled by the main ones.
    pub(crate) fn and_owned<Other>(self, informer: &Informer<Other>) -> Self
    where
        Other:
            Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        self.and(informer, |change| {
            let controllers = change.states().flat_map(|object| {
                let namespace = object.meta().namespace.clone().unwrap_or_default();
                let owners = object
                    .meta()
                    .owner_references
                    .clone()
                    .unwrap_or_default()
                    .into_iter();
                let mine = owners
                    .filter(|owner| owner.controller == Some(true) && owner.kind == K::kind(&()));
                mine.map(move |owner| ObjectRef::new(&owner.name).within(&namespace))
                    .collect::<Vec<_>>()
            });
            let mut refs: Vec<ObjectRef<K>> = controllers.collect();
            refs.dedup();
            refs
        })
    }
}

/// Reconciles every object of `main` once, and again whenever it or a trigger changes, until `shutdown`. Metrics go to `counted`.
pub(crate) async fn work<K, C, F>(
    (counted, main): (WorkQueue<ObjectRef<K>>, Informer<K>),
    triggers: Triggers<K>,
    context: C,
    reconcile: impl Fn(Arc<K>, Arc<C>) -> F + Send + 'static,
    shutdown: CancellationToken,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    C: Send + Sync + 'static,
    F: Future<Output = Result<Action, Failure>> + Send + 'static,
{
    let changes = main.listen();
    let (store, queue) = own_queue(&main, changes, counted.clone());
    let (adding, failing) = (counted.clone(), counted.clone());
    let queue = stream::select(queue, stream::select_all(triggers.streams));
    // a deleted object needs no reconciliation
    let known = store.clone();
    let queue = queue.inspect(move |object| {
        if known.get(object).is_some() {
            adding.count_added(object.clone());
        }
    });
    let queue = queue.take_until(shutdown.cancelled_owned());
    // the newest state with this process's own writes, so that a reconciliation sees those of the one before
    let newest = main.clone();
    let reconcile = catch_panics(counted.controller(), reconcile);
    let reconcile = move |object: Arc<K>, context| {
        let namespace = object.meta().namespace.as_deref().unwrap_or_default();
        let known = newest.get(namespace, object.meta().name.as_deref().unwrap_or_default());
        let known = known.filter(|known| known.meta().uid == object.meta().uid);
        counted.count_taken(&ObjectRef::from_obj(&*object));
        let (reconciling, counted) = (reconcile(known.unwrap_or(object), context), counted.clone());
        Box::pin(async move {
            let begun = Instant::now();
            let done = reconciling.await;
            counted.record_duration(begun.elapsed());
            done
        })
    };
    let failed = move |object: Arc<K>, failure: &Failure| {
        failing.count_retry();
        let object = ObjectRef::from_obj(&*object);
        Action::requeue(failure.log_and_wait(&K::kind(&()), &object.to_string()))
    };
    reconcile_all(queue, store, reconcile, failed, Arc::new(context)).await;
}

/// Returns the main objects for the reconciler, and the queue of changed ones.
fn own_queue<K>(
    main: &Informer<K>,
    changes: mpsc::Receiver<Change<K>>,
    counted: WorkQueue<ObjectRef<K>>,
) -> (
    reflector::Store<K>,
    impl Stream<Item = ObjectRef<K>> + use<K>,
)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (store, mut writer) = reflector::store::<K>();
    let first = main.all();
    writer.apply_watcher_event(&Event::Init);
    for object in &first {
        writer.apply_watcher_event(&Event::InitApply((**object).clone()));
    }
    writer.apply_watcher_event(&Event::InitDone);
    let first: Vec<_> = first
        .iter()
        .map(|object| ObjectRef::from_obj(&**object))
        .collect();
    let later = ReceiverStream::new(changes).filter_map(move |change: Change<K>| {
        let object = (*change.object).clone();
        let reference = ObjectRef::from_obj(&object);
        if change.gone {
            counted.take_removed(&reference);
        }
        let reference = (!change.gone).then_some(reference);
        writer.apply_watcher_event(&if change.gone {
            Event::Delete(object)
        } else {
            Event::Apply(object)
        });
        async move { reference }
    });
    (store, stream::iter(first).chain(later))
}
