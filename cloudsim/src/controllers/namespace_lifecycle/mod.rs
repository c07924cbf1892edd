//! Empties namespaces that are being deleted, reports what is left in their conditions, and then finalizes them.

use std::{sync::Arc, time::Duration};

use crate::controllers::reconciler::{Action, Controller};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::PartialObjectMeta,
    runtime::watcher,
};
use kubeapi::LenientObject;
use serde_json::json;
use tokio_util::sync::CancellationToken;

mod conditions;

use self::conditions::Found;
use super::{
    api_status,
    garbage_collector::{ServedKind, list_served},
    panics::catch_panics,
    requeue::after_failure,
};

/// The entry of `spec.finalizers` that this controller removes.
const FINALIZER: &str = "kubernetes";
/// How often a namespace is checked while objects in it are being deleted.
const EMPTY_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Runs until `shutdown`.
pub(crate) async fn run(client: Client, shutdown: CancellationToken) {
    Controller::new(
        Api::<LenientObject<Namespace>>::all(client.clone()),
        watcher::Config::default(),
    )
    .run(
        catch_panics("namespace", reconcile),
        |_, error| after_failure("empty a namespace", error),
        Arc::new(client),
        shutdown,
    )
    .await;
}

async fn reconcile(
    namespace: Arc<LenientObject<Namespace>>,
    client: Arc<Client>,
) -> Result<Action, kube::Error> {
    let Some(namespace) = namespace.decoded_or_logged() else {
        return Ok(Action::await_change());
    };
    let finalizers = namespace
        .spec
        .as_ref()
        .and_then(|spec| spec.finalizers.clone())
        .unwrap_or_default();
    if namespace.metadata.deletion_timestamp.is_none()
        || !finalizers.iter().any(|own| own == FINALIZER)
    {
        return Ok(Action::await_change());
    }
    let found = empty(&namespace.name_any(), &client).await;
    let Some(namespace) = report(namespace, &found, &client).await? else {
        return Ok(Action::await_change());
    };
    if !found.is_empty() {
        return Ok(Action::requeue(EMPTY_POLL_INTERVAL));
    }
    let mut done = namespace;
    let left = finalizers
        .into_iter()
        .filter(|own| own != FINALIZER)
        .collect();
    done.spec.get_or_insert_default().finalizers = Some(left);
    let api = Api::<Namespace>::all((*client).clone());
    match api
        .replace_subresource("finalize", &done.name_any(), &PostParams::default(), &done)
        .await
    {
        // on a conflict the next event leads here again
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
            Ok(Action::await_change())
        }
        result => result.map(|_| Action::await_change()),
    }
}

/// Deletes everything in the namespace, pods first; returns what is left.
async fn empty(namespace: &str, client: &Client) -> Found {
    let mut found = Found::default();
    let served = match list_served(client).await {
        Ok(served) => served,
        Err(error) => {
            found.discovery = Some(api_status::text(&error));
            return found;
        }
    };
    let (pods, others): (Vec<_>, Vec<_>) = served
        .into_iter()
        .filter(|kind| kind.namespaced)
        .partition(|kind| kind.resource.group.is_empty() && kind.resource.plural == "pods");
    for kinds in [pods, others] {
        for kind in kinds {
            if let Err(error) = empty_of(&kind, namespace, client, &mut found).await {
                found.failures.push(api_status::text(&error));
            }
        }
        // pods that still run may need the other objects
        if !found.is_empty() {
            break;
        }
    }
    found
}

/// Deletes the objects of one kind, and counts those that are left.
async fn empty_of(
    kind: &ServedKind,
    namespace: &str,
    client: &Client,
    found: &mut Found,
) -> Result<(), kube::Error> {
    let api: Api<PartialObjectMeta<DynamicObject>> =
        Api::namespaced_with(client.clone(), namespace, &kind.resource);
    let there = match api.list_metadata(&ListParams::default()).await {
        // of damaged objects the names alone are known, with which they are deleted
        Err(kube::Error::Api(status)) if kubeapi::is_damaged(&status) => {
            api.delete_collection(&DeleteParams::background(), &ListParams::default())
                .await?;
            api.list_metadata(&ListParams::default()).await?.items
        }
        listed => listed?.items,
    };
    if there.is_empty() {
        return Ok(());
    }
    // an object that is being deleted is not deleted again
    for object in there
        .iter()
        .filter(|object| object.metadata.deletion_timestamp.is_none())
    {
        match api
            .delete(&object.name_any(), &DeleteParams::background())
            .await
        {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405 | 409) => {}
            result => drop(result?),
        }
    }
    let left = api.list_metadata(&ListParams::default()).await?.items;
    found.count_remaining(
        &kind.resource.plural,
        &kind.resource.group,
        left.iter().map(ResourceExt::finalizers),
    );
    Ok(())
}

/// Writes what is left to the namespace's conditions; returns the namespace, if it still exists.
async fn report(
    namespace: &Namespace,
    found: &Found,
    client: &Client,
) -> Result<Option<Namespace>, kube::Error> {
    let old = namespace
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone())
        .unwrap_or_default();
    let new = found.conditions(&old, clock::now());
    if new == old {
        return Ok(Some(namespace.clone()));
    }
    let patch = json!({"metadata": {"uid": namespace.uid(), "resourceVersion": namespace.resource_version()},
        "status": {"conditions": new}});
    let api = Api::<Namespace>::all(client.clone());
    match api
        .patch_status(
            &namespace.name_any(),
            &PatchParams::default(),
            &Patch::Merge(patch),
        )
        .await
    {
        // on a conflict the next event leads here again
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
        result => result.map(Some),
    }
}
