//! Applies manifests, as `kubectl apply -f` would: those in the program, or those of a directory.

use std::path::Path;

use anyhow::{Context, bail};
use crds::devices::Device;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, Discovery, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
};
use limits::read_regular_text;

use crate::manifests;

/// The field manager.
const MANAGER: &str = "cloudsim-demo";
/// The largest manifest in bytes; an API server accepts no more either.
const MAX_MANIFEST_BYTES: u64 = 3 * 1024 * 1024;

/// The manifests in the program: the files of `examples/`, to which the files beside this one are links.
const EMBEDDED: [(&str, &str); 5] = [
    (
        "hello-config.yaml",
        include_str!("examples/hello-config.yaml"),
    ),
    (
        "hello-secret.yaml",
        include_str!("examples/hello-secret.yaml"),
    ),
    ("hello.yaml", include_str!("examples/hello.yaml")),
    (
        "thermometer-model.yaml",
        include_str!("examples/thermometer-model.yaml"),
    ),
    (
        "thermometer.yaml",
        include_str!("examples/thermometer.yaml"),
    ),
];

/// The applied objects that are watched.
pub(super) struct Applied {
    /// The pod.
    pub(super) pod: Pod,
    /// The device, if there is one.
    pub(super) device: Option<Device>,
}

/// Applies every manifest, devices after their models and pods last, so that they find what they need. Returns the applied pod and device.
pub(super) async fn apply(
    client: &Client,
    mut objects: Vec<DynamicObject>,
    progress: &dyn Fn(&str),
) -> anyhow::Result<Applied> {
    let rank = |kind: &str| match kind {
        "Device" => 1,
        "Pod" => 2,
        _ => 0,
    };
    objects.sort_by_key(|object| object.types.as_ref().map(|types| rank(&types.kind)));
    let discovery = Discovery::new(client.clone())
        .run()
        .await
        .context("the API describes nothing")?;
    let (mut pod, mut device) = (None, None);
    for object in objects {
        let types = object
            .types
            .clone()
            .context("a manifest has no apiVersion and kind")?;
        let gvk = kube::core::GroupVersionKind::try_from(&types)?;
        let name = object.name_any();
        let (resource, capabilities) = discovery.resolve_gvk(&gvk).with_context(|| {
            format!("the API serves no {} of {}", types.kind, types.api_version)
        })?;
        let namespace = object.namespace();
        let api = manifests::api(
            client.clone(),
            &resource,
            &capabilities,
            namespace.as_deref(),
        );
        let applied = api
            .patch(
                &name,
                &PatchParams::apply(MANAGER).force(),
                &Patch::Apply(&object),
            )
            .await;
        let applied = applied.with_context(|| format!("{} {name} was refused", types.kind))?;
        progress(&format!("{} {name} is applied", types.kind));
        match types.kind.as_str() {
            "Pod" => pod = Some(serde_json::from_value(serde_json::to_value(applied)?)?),
            "Device" => device = Some(serde_json::from_value(serde_json::to_value(applied)?)?),
            _ => {}
        }
    }
    Ok(Applied {
        pod: pod.context("the manifests contain no pod")?,
        device,
    })
}

/// Returns the manifests in the program.
pub(crate) fn embedded_manifests() -> anyhow::Result<Vec<DynamicObject>> {
    EMBEDDED
        .into_iter()
        .map(|(name, text)| parse(Path::new(name), text))
        .collect()
}

/// Reads the manifests of a directory, of which one must be a pod.
pub(crate) fn read(directory: &Path) -> anyhow::Result<Vec<DynamicObject>> {
    let entries = std::fs::read_dir(directory).with_context(|| {
        format!(
            "cannot read {}; name the directory of the manifests with --manifests",
            directory.display()
        )
    })?;
    let mut objects = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = read_regular_text(&path, MAX_MANIFEST_BYTES)
            .with_context(|| format!("cannot read {}", path.display()))?;
        objects.push(parse(&path, &text)?);
    }
    let is_pod = |object: &DynamicObject| {
        object
            .types
            .as_ref()
            .is_some_and(|types| types.kind == "Pod")
    };
    if !objects.iter().any(is_pod) {
        bail!(
            "{} contains no pod; name the directory of the manifests with --manifests",
            directory.display()
        );
    }
    Ok(objects)
}

/// Parses a manifest; `path` names it in errors.
fn parse(path: &Path, text: &str) -> anyhow::Result<DynamicObject> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options)
        .with_context(|| format!("{} is not a manifest", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_manifests_are_the_examples() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("examples");
        let named = |mut objects: Vec<DynamicObject>| {
            objects.sort_by_key(|object| {
                (
                    object.types.clone().map(|types| types.kind),
                    object.name_any(),
                )
            });
            serde_json::to_value(objects).unwrap()
        };
        assert_eq!(
            named(embedded_manifests().unwrap()),
            named(read(&directory).unwrap())
        );
    }

    /// `kubectl apply -f examples/` applies files by name: a pod that starts before its Secret exists gets a warning event.
    #[test]
    fn by_name_the_examples_come_in_the_order_in_which_they_need_each_other() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("examples");
        let mut files: Vec<_> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "yaml")
            })
            .collect();
        files.sort();
        let kinds: Vec<String> = files
            .iter()
            .map(|path| {
                let object: DynamicObject =
                    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
                object.types.unwrap().kind
            })
            .collect();
        assert_eq!(
            kinds,
            ["ConfigMap", "Secret", "Pod", "DeviceModel", "Device"]
        );
    }
}
