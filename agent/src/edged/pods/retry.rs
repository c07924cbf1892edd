//! Pods that wait for something of the cloud, such as a token or a Secret, are synced as soon as the cloud is connected again,
//! and not only when their back-off is over.

use std::sync::Arc;

use kube::runtime::reflector::ObjectRef;

use super::{Context, Trigger};
use crate::metamanager::Online;

/// Triggers them with each connection; for ever.
pub(crate) async fn when_connected(context: Arc<Context>, mut online: Online) {
    loop {
        online.returned().await;
        for pod in context.pods.state() {
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            let waits = context.pod_cache.with(uid, super::cache::PodState::cloud_returned);
            if waits && context.triggers.send(Trigger::Pod(ObjectRef::from_obj(pod.as_ref()))).await.is_err()
            {
                // the controller has ended, and with it all of EdgeD
                return std::future::pending().await;
            }
        }
    }
}
