//! The objects that the controllers share: one informer of each kind. [`Reflectors`] list and watch them, and show none. Each controller
//! declares by [`cluster!`] which kinds it reads, and gets these once all of them have been listed. So no controller can act on a part
//! of its objects, and one whose kinds can be listed does not wait for another kind, which has a damaged object, say.

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::{CronJob, Job},
    core::v1::{
        Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
        ReplicationController, Service,
    },
    discovery::v1::EndpointSlice,
    policy::v1::PodDisruptionBudget,
    storage::v1::StorageClass,
};
use tokio_util::sync::CancellationToken;

use super::shared::Shared;
use crate::{controllers::informers::Reflector, tasks::Tasks};

/// The objects that one controller reads.
pub(crate) trait Listed: Sized + Send {
    /// Waits until all its kinds have been listed.
    fn wait_listed(reflectors: &Reflectors) -> impl Future<Output = Self> + Send;
}

/// Declares the struct of the objects that a controller reads: a field for the informer of each kind, with the name that it has in
/// [`Reflectors`].
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
                Self { shared: reflectors.shared.clone(), $($informer: reflectors.$informer.wait_synced().await,)* }
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

macro_rules! shared_kinds {
    ($($informer:ident: $kind:ty,)*) => {
        /// Lists and watches all kinds that the controllers share. Cheap to clone.
        #[derive(Clone)]
        #[allow(missing_docs)]
        pub(crate) struct Reflectors {
            pub(crate) shared: Shared,
            $(pub(crate) $informer: Reflector<$kind>,)*
        }

        impl Reflectors {
            /// Creates them; nothing is listed yet.
            pub(crate) fn new(shared: Shared) -> Self {
                Self { shared, $($informer: Reflector::default(),)* }
            }

            /// Starts to list and watch every kind, until `stop`.
            pub(crate) fn spawn(&self, tasks: &Tasks, stop: &CancellationToken) {
                let client = &self.shared.client;
                $(tasks.spawn(
                    concat!("informer of ", stringify!($informer)),
                    self.$informer.run(client.clone(), stop.child_token()),
                );)*
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
    /// Starts a controller, which begins once the kinds that it reads have been listed, and runs until `stop`.
    pub(crate) fn start<C: Listed, F>(
        &self,
        name: &'static str,
        tasks: &Tasks,
        stop: &CancellationToken,
        controller: impl FnOnce(C, CancellationToken) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let (reflectors, stop) = (self.clone(), stop.child_token());
        tasks.spawn(name, async move {
            if let Some(cluster) = stop.run_until_cancelled(C::wait_listed(&reflectors)).await {
                controller(cluster, stop.clone()).await;
            }
        });
    }
}
