//! Pods that wait for something of the cloud, such as a token or a Secret, are synced as soon as the cloud is connected again,
//! and not only when their back-off is over.

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::Store;
use tokio::sync::mpsc;

use super::{
    cache::{PodCache, PodState},
    trigger::Trigger,
};
use crate::metamanager::Reconnections;

/// Triggers those of `pods` that wait with each connection, for ever.
pub(crate) async fn when_connected(
    mut online: Reconnections,
    pods: Store<Pod>,
    pod_cache: PodCache,
    triggers: mpsc::Sender<Trigger>,
) {
    loop {
        online.next().await;
        for pod in pods.state() {
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            let waits = pod_cache.with(uid, PodState::cloud_returned);
            if waits && triggers.send(Trigger::of(&pod)).await.is_err() {
                // The controller has ended, and with it all of EdgeD.
                return std::future::pending().await;
            }
        }
    }
}
