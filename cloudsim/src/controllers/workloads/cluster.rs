//! The objects that the controllers share. [`Reflectors`] list and watch them, and show none; [`Cluster`] shows them, and exists only
//! once every kind has been listed. A controller has nothing but a `Cluster`, so it cannot act on a part of the objects.

use std::{ops::Deref, sync::Arc};

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::{CronJob, Job},
    core::v1::{
        Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController,
        Service,
    },
    discovery::v1::EndpointSlice,
    policy::v1::PodDisruptionBudget,
    storage::v1::StorageClass,
};
use tokio_util::sync::CancellationToken;

use super::{backoff::FailureBackoff, shared::Shared};
use crate::{
    controllers::informers::{Informer, Reflector},
    tasks::Tasks,
};

macro_rules! shared_kinds {
    ($($informer:ident: $kind:ty,)*) => {
        /// Lists and watches all kinds that the controllers share. Cheap to clone.
        #[derive(Clone)]
        pub(crate) struct Reflectors {
            shared: Shared,
            $($informer: Reflector<$kind>,)*
            failures: Arc<FailureBackoff>,
        }

        /// All objects that the controllers share, each kind completely listed. Cheap to clone.
        #[derive(Clone)]
        #[allow(missing_docs)]
        pub(crate) struct Cluster {
            shared: Shared,
            $(pub(crate) $informer: Informer<$kind>,)*
            /// The back-off of failing pods.
            pub(super) failures: Arc<FailureBackoff>,
        }

        impl Reflectors {
            /// Creates them; nothing is listed yet.
            pub(crate) fn new(shared: Shared) -> Self {
                Self { shared, $($informer: Reflector::default(),)* failures: Arc::default() }
            }

            /// Starts to list and watch every kind, until `stop`.
            pub(crate) fn spawn(&self, tasks: &Tasks, stop: &CancellationToken) {
                let client = &self.shared.client;
                $(tasks.spawn(
                    concat!("informer of ", stringify!($informer)),
                    self.$informer.run(client.clone(), stop.child_token()),
                );)*
            }

            /// Waits until every kind has been listed.
            pub(crate) async fn synced(&self) -> Cluster {
                Cluster {
                    shared: self.shared.clone(),
                    $($informer: self.$informer.synced().await,)*
                    failures: Arc::clone(&self.failures),
                }
            }
        }

        #[cfg(test)]
        impl Cluster {
            /// Creates it for tests that say themselves which objects there are.
            pub(crate) fn empty(shared: Shared) -> Self {
                Self { shared, $($informer: Informer::default(),)* failures: Arc::default() }
            }
        }
    };
}

shared_kinds! {
    pods: Pod,
    nodes: Node,
    namespaces: Namespace,
    claims: PersistentVolumeClaim,
    volumes: PersistentVolume,
    classes: StorageClass,
    deployments: Deployment,
    replica_sets: ReplicaSet,
    replication_controllers: ReplicationController,
    daemon_sets: DaemonSet,
    stateful_sets: StatefulSet,
    revisions: ControllerRevision,
    jobs: Job,
    cron_jobs: CronJob,
    services: Service,
    slices: EndpointSlice,
    endpoints: Endpoints,
    budgets: PodDisruptionBudget,
}

impl Reflectors {
    /// Starts a controller, which begins once every kind has been listed and runs until `stop`.
    pub(crate) fn start<F>(
        &self,
        (name, tasks): (&'static str, &Tasks),
        stop: &CancellationToken,
        controller: impl FnOnce(Cluster, CancellationToken) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let (reflectors, stop) = (self.clone(), stop.child_token());
        tasks.spawn(name, async move {
            if let Some(cluster) = stop.run_until_cancelled(reflectors.synced()).await {
                controller(cluster, stop.clone()).await;
            }
        });
    }
}

impl Deref for Cluster {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}
