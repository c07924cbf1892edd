//! The objects that the controllers share: one informer of each kind. [`Reflectors`] list and watch them, and show none. Each controller
//! declares by [`cluster!`] which kinds it reads, and gets these once all of them have been listed. So no controller can act on a part
//! of its objects, and one whose kinds can be listed does not wait for another kind, which has a damaged object, say.

use std::{fmt::Debug, sync::Arc};

use kube::Resource;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::shared::Shared;
use crate::{controllers::informers::Reflector, tasks::Tasks};

/// The objects that one controller reads.
pub(crate) trait Listed: Sized + Send {
    /// Waits until all its kinds have been listed.
    fn wait_listed(reflectors: &Reflectors) -> impl Future<Output = Self> + Send;
}

/// Declares the struct of the objects that a controller reads: a field for the informer of each kind.
macro_rules! cluster {
    ($name:ident { $($informer:ident: $kind:ty),* $(,)? }) => {
        /// The objects that this controller reads, all of which have been listed. Cheap to clone.
        #[derive(Clone)]
        #[allow(missing_docs)]
        pub(crate) struct $name {
            pub(crate) shared: $crate::controllers::workloads::Shared,
            $(pub(crate) $informer: $crate::controllers::informers::Informer<$kind>,)*
        }

        impl $crate::controllers::workloads::Listed for $name {
            async fn wait_listed(reflectors: &$crate::controllers::workloads::Reflectors) -> Self {
                // all begin to list before the first is waited for
                $(let $informer = reflectors.of::<$kind>();)*
                Self { shared: reflectors.shared.clone(), $($informer: $informer.wait_synced().await,)* }
            }
        }

        impl std::ops::Deref for $name {
            type Target = $crate::controllers::workloads::Shared;

            fn deref(&self) -> &Self::Target {
                &self.shared
            }
        }
    };
}
pub(crate) use cluster;

/// Lists and watches the kinds that the controllers read, each once and from the first controller on that reads it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Reflectors {
    pub(crate) shared: Shared,
    tasks: Tasks,
    stop: CancellationToken,
    /// What controllers that are started run among, and until when.
    controllers: (Tasks, CancellationToken),
    /// The [`Reflector`] of each kind.
    kinds: Arc<Mutex<http::Extensions>>,
}

impl Reflectors {
    /// Creates them; nothing is listed yet. What is started here runs among `tasks` until `stop`.
    pub(crate) fn new(shared: Shared, tasks: &Tasks, stop: &CancellationToken) -> Self {
        Self {
            shared,
            tasks: tasks.clone(),
            stop: stop.clone(),
            controllers: (tasks.clone(), stop.clone()),
            kinds: Arc::default(),
        }
    }

    /// Returns the same reflectors for controllers that run among `tasks` until `stop`.
    pub(crate) fn for_controllers(&self, tasks: &Tasks, stop: &CancellationToken) -> Self {
        Self {
            controllers: (tasks.clone(), stop.clone()),
            ..self.clone()
        }
    }

    /// Returns the reflector of a kind, which lists and watches from now on.
    pub(crate) fn of<K>(&self) -> Reflector<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let mut kinds = self.kinds.lock();
        if let Some(reflector) = kinds.get::<Reflector<K>>() {
            return reflector.clone();
        }
        let reflector = Reflector::<K>::default();
        kinds.insert(reflector.clone());
        self.tasks.spawn(
            format!("informer of {}", K::plural(&())),
            reflector.run(self.shared.client.clone(), self.stop.child_token()),
        );
        reflector
    }

    /// Starts a controller, which begins once the kinds that it reads have been listed.
    pub(crate) fn start<C: Listed, F>(
        &self,
        name: &'static str,
        controller: impl FnOnce(C, CancellationToken) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let (tasks, stop) = &self.controllers;
        let (reflectors, stop) = (self.clone(), stop.child_token());
        tasks.spawn(name, async move {
            if let Some(cluster) = stop.run_until_cancelled(C::wait_listed(&reflectors)).await {
                controller(cluster, stop.clone()).await;
            }
        });
    }
}
