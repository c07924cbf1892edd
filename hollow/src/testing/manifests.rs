//! Applies manifests, as `kubectl apply --server-side` does.

use kube::{
    Api, Client, Discovery, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
    discovery::Scope,
};

use super::Error;

/// The field manager.
const MANAGER: &str = "cloudsim-testing";

pub(super) async fn apply(client: &Client, manifests: &str) -> Result<Vec<DynamicObject>, Error> {
    let options = serde_saphyr::options! { with_snippet: false };
    let read = serde_saphyr::from_multiple_with_options(manifests, options);
    let objects: Vec<DynamicObject> = read
        .map_err(|error| error.without_snippet().to_string())
        .map_err(|error| {
            Error::Manifest(format!(
                "the text is no manifest: {}",
                limits::excerpt(&error)
            ))
        })?;
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
        let api: Api<DynamicObject> = match (capabilities.scope, object.namespace()) {
            (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
            (Scope::Namespaced, Some(namespace)) => {
                Api::namespaced_with(client.clone(), &namespace, &resource)
            }
            (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), &resource),
        };
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
