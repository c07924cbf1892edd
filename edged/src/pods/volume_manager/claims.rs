//! Fetches persistent volume claims and their volumes from the API, for volumes that are not set up yet.

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, Volume};
use kube::Api;
use wire::names::is_path_component;

use super::super::{context::Context, identity::Identity};
use crate::{
    api_message,
    volume_source::{self, VolumeSource},
    volumes::{self, BackingPath, ClaimError, Claims},
};

/// Returns the result of looking up each claim.
pub(super) async fn of_pod(context: &Context, pod: &Pod, identity: &Identity<'_>) -> Claims {
    let wanted: Vec<(&Volume, &str)> = volume_source::volumes(pod)
        .filter_map(|volume| {
            Some((
                volume,
                VolumeSource::of(volume)?.claim()?.claim_name.as_str(),
            ))
        })
        .filter(|(volume, _)| volumes::volume_path(&context.dirs, pod, volume).is_err())
        .collect();
    if wanted.is_empty() {
        return Claims::new();
    }
    let node = Api::<Node>::all(context.client.clone())
        .get_opt(&context.node.name)
        .await;
    let node = node.ok().flatten().unwrap_or_default();
    let lookups = wanted.into_iter().map(async |(volume, claim)| {
        (
            volume.name.clone(),
            look_up(context, identity.namespace, claim, &node).await,
        )
    });
    join_all(lookups).await.into_iter().collect()
}

async fn look_up(
    context: &Context,
    namespace: &str,
    name: &str,
    node: &Node,
) -> Result<BackingPath, ClaimError> {
    let missing = || ClaimError::Missing(name.chars().take(256).collect());
    // An invalid name could change the path of the request.
    if !is_path_component(name) {
        return Err(missing());
    }
    let unavailable = |name: &str, error: &kube::Error| {
        ClaimError::Unavailable(name.to_owned(), api_message(error))
    };
    let claims = Api::<PersistentVolumeClaim>::namespaced(context.client.clone(), namespace);
    let claim = claims
        .get_opt(name)
        .await
        .map_err(|error| unavailable(name, &error))?
        .ok_or_else(missing)?;
    let name = volumes::volume_name(&claim)?;
    let gone = || ClaimError::VolumeMissing(name.to_owned());
    if !is_path_component(name) {
        return Err(gone());
    }
    let all = Api::<PersistentVolume>::all(context.client.clone());
    let volume = all
        .get_opt(name)
        .await
        .map_err(|error| unavailable(name, &error))?
        .ok_or_else(gone)?;
    volumes::backing_path(&claim, &volume, node)
}
