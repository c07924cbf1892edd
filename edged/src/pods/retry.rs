//! Syncs pods that wait for objects of the cloud, such as a token or a Secret, as soon as the cloud is connected again, and not
//! only after their back-off.

use componentbase::Reconnections;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::Store;
use tokio::sync::mpsc;

use super::cache::{PodCache, PodState};
use crate::trigger::Trigger;

/// Triggers the waiting pods after each reconnection. Never returns.
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
            let waits = pod_cache.with(uid, PodState::retry_failed);
            if waits && triggers.send(Trigger::of(&pod)).await.is_err() {
                // The controller has ended, and so will all of EdgeD.
                return std::future::pending().await;
            }
        }
    }
}
