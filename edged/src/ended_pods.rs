//! Waits for the end of pods that were marked for termination.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::{ObjectRef, Store};
use wire::names::is_path_component;

use crate::{names::Dirs, specs::is_terminal};

/// How often the pods are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Waits until all these pods have ended and their volumes are removed.
pub(crate) async fn wait_until_gone(store: &Store<Pod>, dirs: &Dirs, pods: &[Arc<Pod>]) {
    let runs = |pod: &Arc<Pod>| {
        let now = store.get(&ObjectRef::from_obj(pod.as_ref()));
        now.is_some_and(|now| now.metadata.uid == pod.metadata.uid && !is_terminal(&now))
    };
    for pod in pods {
        let uid = pod
            .metadata
            .uid
            .as_deref()
            .filter(|uid| is_path_component(uid));
        let volumes = uid.map(|uid| dirs.volumes(uid));
        let keeps = async || match &volumes {
            Some(volumes) => clock::fs::try_exists(volumes).await.unwrap_or(false),
            None => false,
        };
        while runs(pod) || keeps().await {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}
