//! Empties namespaces that are being deleted, then lets them go.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, PostParams},
    core::PartialObjectMeta,
    runtime::{
        controller::{Action, Controller},
        watcher,
    },
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::garbage::served;

/// The entry of `spec.finalizers` that this controller takes away.
const FINALIZER: &str = "kubernetes";
/// When to look again while something in the namespace takes its time.
const UNTIL_EMPTY: Duration = Duration::from_millis(500);
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// Runs until `shutdown`.
pub(crate) async fn run(client: Client, shutdown: CancellationToken) {
    Controller::new(Api::<Namespace>::all(client.clone()), watcher::Config::default())
        .run(
            reconcile,
            |_, error, _| {
                warn!(error = error as &dyn std::error::Error, "a namespace could not be emptied");
                Action::requeue(AFTER_ERROR)
            },
            Arc::new(client),
        )
        // not kube's own graceful shutdown: begun before the first list has come, that one never ends
        .take_until(shutdown.cancelled_owned())
        .for_each(|_| async {})
        .await;
}

async fn reconcile(namespace: Arc<Namespace>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.clone()).unwrap_or_default();
    if namespace.metadata.deletion_timestamp.is_none() || !finalizers.iter().any(|own| own == FINALIZER) {
        return Ok(Action::await_change());
    }
    if !empty(&namespace.name_any(), &client).await? {
        return Ok(Action::requeue(UNTIL_EMPTY));
    }
    let mut done = (*namespace).clone();
    let left = finalizers.into_iter().filter(|own| own != FINALIZER).collect();
    done.spec.get_or_insert_default().finalizers = Some(left);
    let api = Api::<Namespace>::all((*client).clone());
    match api.replace_subresource("finalize", &namespace.name_any(), &PostParams::default(), &done).await {
        // somebody else was faster, or it changed meanwhile: the next event tells
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Action::await_change()),
        result => result.map(|_| Action::await_change()),
    }
}

/// Deletes all that is in the namespace; answers whether nothing is left.
async fn empty(namespace: &str, client: &Client) -> Result<bool, kube::Error> {
    let mut is_empty = true;
    for kind in served(client).await?.into_iter().filter(|kind| kind.namespaced) {
        let api: Api<PartialObjectMeta<DynamicObject>> =
            Api::namespaced_with(client.clone(), namespace, &kind.resource);
        let left = api.list_metadata(&ListParams::default()).await?.items;
        for object in left {
            is_empty = false;
            // what is already on its way out needs no second push
            if object.metadata.deletion_timestamp.is_none() {
                match api.delete(&object.name_any(), &DeleteParams::background()).await {
                    Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405 | 409) => {}
                    result => drop(result?),
                }
            }
        }
    }
    Ok(is_empty)
}
