//! Applying the manifests of a directory, as `kubectl apply -f` would.

use std::path::Path;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Discovery, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    discovery::Scope,
};

/// The field manager.
const MANAGER: &str = "cloudsim-demo";
/// A manifest's limit, bytes; an API server takes no more either.
const LIMIT: u64 = 3 * 1024 * 1024;

/// Applies every manifest, pods last: they find what they mount. Answers the pod as applied.
pub(super) async fn apply(client: &Client, directory: &Path, progress: &dyn Fn(&str)) -> anyhow::Result<Pod> {
    let mut objects = read(directory)?;
    objects.sort_by_key(|object| object.types.as_ref().is_some_and(|types| types.kind == "Pod"));
    let discovery = Discovery::new(client.clone()).run().await.context("the API describes nothing")?;
    let mut pod = None;
    for object in objects {
        let types = object.types.clone().context("a manifest has no apiVersion and kind")?;
        let gvk = kube::core::GroupVersionKind::try_from(&types)?;
        let name = object.name_any();
        let (resource, capabilities) = discovery
            .resolve_gvk(&gvk)
            .with_context(|| format!("the API serves no {} of {}", types.kind, types.api_version))?;
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Cluster => Api::all_with(client.clone(), &resource),
            Scope::Namespaced => Api::namespaced_with(
                client.clone(),
                object.namespace().as_deref().unwrap_or("default"),
                &resource,
            ),
        };
        let applied = api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&object)).await;
        let applied = applied.with_context(|| format!("{} {name} was not taken", types.kind))?;
        progress(&format!("{} {name} is applied", types.kind));
        if types.kind == "Pod" {
            pod = Some(serde_json::from_value(serde_json::to_value(applied)?)?);
        }
    }
    pod.with_context(|| format!("{} holds no pod", directory.display()))
}

fn read(directory: &Path) -> anyhow::Result<Vec<DynamicObject>> {
    let entries = std::fs::read_dir(directory).with_context(|| {
        format!(
            "{} cannot be read; name the directory of the manifests with --manifests",
            directory.display()
        )
    })?;
    let mut objects = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        if std::fs::metadata(&path)?.len() > LIMIT {
            bail!("{} is larger than {LIMIT} bytes", path.display());
        }
        let text = std::fs::read_to_string(&path)?;
        let object =
            serde_saphyr::from_str(&text).with_context(|| format!("{} is not a manifest", path.display()))?;
        objects.push(object);
    }
    Ok(objects)
}
