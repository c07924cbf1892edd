//! One informer of each kind for all controllers of this process, and their control loop.
//!
//! A [`Reflector`] lists and watches; its [`Informer`] can be had only after the first list, and nothing else has the objects.
//!
//! In: watch events, and the controllers' own writes. Out: objects by name, owner and namespace, and changes for listeners. Every
//! listener's channel is bounded; a full one delays the watch, a closed one is dropped.

use std::{fmt, fmt::Debug, future::Future, pin::pin, sync::Arc};

use clock::Instant;
use futures::StreamExt;
use kube::{Client, Resource, runtime::watcher};
use limits::Repeated;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

mod cache;
mod changes;
mod metrics;
mod work;

pub(crate) use cache::Change;
pub(crate) use changes::Changes;
pub(crate) use metrics::WorkQueues;
pub(crate) use work::{Failure, Triggers, work};

/// The capacity of a listener's channel: the work queue behind it merges changes, so it is emptied quickly.
const WAITING_CHANGES: usize = 1024;

/// Lists and watches the objects of one kind. Nothing can be read here: the objects are in the [`Informer`], which exists only once
/// everything has been listed, so that no controller takes an object that is not listed yet for one that does not exist. Cheap to clone.
pub(crate) struct Reflector<K>(Arc<Inner<K>>);

/// The objects of one kind, all of which have been listed. Cheap to clone.
pub(crate) struct Informer<K>(Arc<Inner<K>>);

struct Inner<K> {
    cache: Mutex<cache::Cache<K>>,
    listeners: Mutex<Vec<mpsc::Sender<Change<K>>>>,
    /// Whether everything has been listed.
    complete: watch::Sender<bool>,
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Resource<DynamicType = ()>> Default for Inner<K> {
    fn default() -> Self {
        let (complete, _) = watch::channel(false);
        Self {
            cache: Mutex::default(),
            listeners: Mutex::default(),
            complete,
        }
    }
}

impl<K> Clone for Reflector<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Resource<DynamicType = ()>> Default for Reflector<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// For tests that say themselves which objects there are.
#[cfg(test)]
impl<K: Resource<DynamicType = ()>> Default for Informer<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K> Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer").finish_non_exhaustive()
    }
}

/// Reports whether a list failed because a stored object is damaged.
fn is_damaged(error: &watcher::Error) -> bool {
    let failed = match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => error,
        _ => return false,
    };
    matches!(failed, kube::Error::Api(status) if kubeapi::is_damaged(status))
}

impl<K> Reflector<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Lists and watches until `shutdown`.
    pub(crate) fn run(
        &self,
        client: Client,
        shutdown: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<K> {
        let inner = Arc::clone(&self.0);
        // boxed: some tasks run many of them side by side
        async move { Box::pin(inner.watch(client, shutdown)).await }
    }

    /// Waits until everything has been listed, and returns the objects.
    pub(crate) async fn wait_synced(&self) -> Informer<K> {
        let mut complete = self.0.complete.subscribe();
        // fails only when the sender is gone, which `self` has
        let _ = complete.wait_for(|complete| *complete).await;
        Informer(Arc::clone(&self.0))
    }
}

impl<K> Inner<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    async fn watch(self: Arc<Self>, client: Client, shutdown: CancellationToken) {
        let this = Arc::clone(&self);
        let events = kubeapi::watch_objects_with_backoff(client, watcher::Config::default())
            .with_last_version(move |namespace, name| {
                this.cache
                    .lock()
                    .get(namespace, name)
                    .map(Arc::unwrap_or_clone)
            });
        let mut events = pin!(events.take_until(shutdown.cancelled_owned()));
        let mut damaged = Repeated::default();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    // each list begins, also one that then fails
                    if !matches!(event, watcher::Event::Init | watcher::Event::InitApply(_)) {
                        damaged = Repeated::default();
                    }
                    self.observe(event).await;
                }
                Err(error) => {
                    let (kind, why) = (K::kind(&()), &error as &dyn std::error::Error);
                    if !is_damaged(&error) {
                        tracing::debug!(%kind, error = why, "watch ended; restarting");
                    } else if let Some(times) = damaged.count(&error.to_string(), Instant::now()) {
                        tracing::error!(%kind, times, error = why, "failed to list objects; controllers that read them wait");
                    }
                }
            }
        }
    }

    async fn observe(&self, mut event: watcher::Event<K>) {
        if let watcher::Event::Apply(object) | watcher::Event::InitApply(object) = &mut event {
            // managed fields are not needed, and are half of a small object
            object.meta_mut().managed_fields = None;
        }
        let is_complete = matches!(event, watcher::Event::InitDone);
        let changes = self.cache.lock().observe(event);
        if is_complete {
            self.complete.send_replace(true);
        }
        for change in changes {
            self.notify(change).await;
        }
    }

    async fn notify(&self, change: Change<K>) {
        let listeners = self.listeners.lock().clone();
        let mut closed = false;
        for listener in &listeners {
            closed |= listener.send(change.clone()).await.is_err();
        }
        if closed {
            self.listeners
                .lock()
                .retain(|listener| !listener.is_closed());
        }
    }
}

impl<K> Informer<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Returns the changes from now on: a caller that listens before reading [`Informer::all`] misses none.
    pub(crate) fn listen(&self) -> mpsc::Receiver<Change<K>> {
        let (sender, receiver) = mpsc::channel(WAITING_CHANGES);
        self.0.listeners.lock().push(sender);
        receiver
    }

    /// Returns every object.
    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.0.cache.lock().all()
    }

    /// Returns one object; the namespace is empty for cluster-scoped kinds.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.0.cache.lock().get(namespace, name)
    }

    /// Returns the objects whose controller has this uid.
    pub(crate) fn controlled_by(&self, uid: &str) -> Vec<Arc<K>> {
        self.0.cache.lock().controlled_by(uid)
    }

    /// Returns the objects of a namespace without a controller.
    pub(crate) fn orphans(&self, namespace: &str) -> Vec<Arc<K>> {
        let mut orphans = self.0.cache.lock().controlled_by("");
        orphans.retain(|object| object.meta().namespace.as_deref() == Some(namespace));
        orphans
    }

    /// Returns the objects of a namespace.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.0.cache.lock().in_namespace(namespace)
    }

    /// Applies a write of this process, as the API answered it.
    pub(crate) fn wrote(&self, mut object: K) {
        object.meta_mut().managed_fields = None;
        self.0.cache.lock().wrote(object);
    }

    /// Applies a deletion by this process.
    pub(crate) fn apply_removal(&self, object: &K) {
        self.0.cache.lock().apply_removal(object);
    }
}
