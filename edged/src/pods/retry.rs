//! Syncs pods that wait for objects of the cloud, such as a token or a Secret, as soon as the cloud is connected again, and pods
//! that wait for a device as soon as its plugin reports it; not only after their back-off.

use std::sync::Arc;

use componentbase::Reconnections;

use super::{cache::PodState, context::Context};
use crate::trigger::Trigger;

/// Triggers the waiting pods after each reconnection and each change of devices. Never returns.
pub(crate) async fn run(context: Arc<Context>, mut online: Reconnections) {
    let mut devices = context.devices.subscribe();
    loop {
        // cancel-safe: a change that is not taken here remains visible.
        let is_connected = clock::select! {
            () = online.next() => true,
            changed = devices.changed() => {
                if changed.is_err() {
                    return std::future::pending().await;
                }
                false
            }
        };
        for pod in context.pods.state() {
            if !is_connected && !context.devices.is_used_by(&pod) {
                continue;
            }
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            let waits = context.pod_cache.with(uid, PodState::retry_failed);
            if waits && context.triggers.send(Trigger::of(&pod)).await.is_err() {
                // The controller has ended, and so will all of EdgeD.
                return std::future::pending().await;
            }
        }
    }
}
