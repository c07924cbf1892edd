//! Applies manifests, as `kubectl apply --server-side` does.

use kube::{
    Client, Discovery, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};

use super::Error;
use crate::manifests::{api, documents};

/// The field manager.
const MANAGER: &str = "cloudsim-testing";

pub(super) async fn apply(client: &Client, manifests: &str) -> Result<Vec<DynamicObject>, Error> {
    let objects: Vec<DynamicObject> = documents(manifests)
        .map_err(|error| Error::Manifest(format!("the text is no manifest: {error}")))?;
    let mut applied = Vec::new();
    for object in objects {
        let name = object.name_any();
        let types = object.types.clone();
        let types =
            types.ok_or_else(|| Error::Manifest(format!("{name:?} has no apiVersion and kind")))?;
        let gvk = GroupVersionKind::try_from(&types)
            .map_err(|error| Error::Manifest(error.to_string()))?;
        // Discovery is repeated for each document: the one before may have defined its kind.
        let discovery = Discovery::new(client.clone())
            .filter(&[&gvk.group])
            .run()
            .await?;
        let (resource, capabilities) = discovery.resolve_gvk(&gvk).ok_or_else(|| {
            Error::Manifest(format!(
                "the API serves no {} of {}",
                types.kind, types.api_version
            ))
        })?;
        let namespace = object.namespace();
        let api = api(
            client.clone(),
            &resource,
            &capabilities,
            namespace.as_deref(),
        );
        let taken = api
            .patch(
                &name,
                &PatchParams::apply(MANAGER).force(),
                &Patch::Apply(&object),
            )
            .await;
        applied.push(taken.map_err(|source| Error::Refused {
            kind: types.kind,
            name,
            source: Box::new(source),
        })?);
    }
    Ok(applied)
}
