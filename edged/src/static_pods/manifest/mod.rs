//! Parses manifests of static pods. Pure.
//!
//! Source: Kubernetes, "Create static Pods". Unlike in the kubelet, a UID in the manifest is ignored: the uid of a static pod is
//! a hash of its content.

use componentbase::{
    static_pods::{CONFIG_HASH_ANNOTATION, CONFIG_SOURCE_ANNOTATION},
    yaml,
};
use k8s_openapi::api::core::v1::{Pod, PodSpec, Toleration};
use limits::excerpt;
use ring::digest::{Context, SHA256};
use serde_json::Value;

/// Annotation: the file name of a static pod's manifest.
pub(super) const MANIFEST_ANNOTATION: &str = "outrigger.kubeedge.io/manifest";
/// Annotation: when it was first seen.
const SEEN_ANNOTATION: &str = "kubernetes.io/config.seen";

/// Why a manifest is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    /// It is not YAML.
    #[error("the file is not YAML: {0}")]
    Yaml(#[from] yaml::NotYaml),
    /// It is another kind of object.
    #[error("the file contains {0}; each file must contain one Pod of version v1")]
    Kind(String),
    /// A field has a wrong type.
    #[error("invalid field of the Pod: {0}")]
    Field(String),
    /// It violates the validation of pods.
    #[error("{0}")]
    Invalid(String),
}

/// Returns the static pod of the manifest `text` in `file` on `node`. `seen` is the current time.
pub(super) fn pod(text: &str, file: &str, node: &str, seen: jiff::Timestamp) -> Result<Pod, Error> {
    let written = yaml::parse(text)?;
    let field = |name: &str| {
        written
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or("nothing")
            .to_owned()
    };
    if (field("apiVersion").as_str(), field("kind").as_str()) != ("v1", "Pod") {
        let kind = format!("{} of version {}", field("kind"), field("apiVersion"));
        return Err(Error::Kind(excerpt(&kind)));
    }
    let refused = |error: serde_json::Error| Error::Field(excerpt(&error.to_string()));
    let mut pod: Pod = serde_json::from_value(written).map_err(refused)?;
    let meta = std::mem::take(&mut pod.metadata);
    pod.status = None;
    pod.metadata.name = meta
        .name
        .filter(|name| !name.is_empty())
        .map(|name| format!("{name}-{node}"));
    pod.metadata.namespace = Some(
        meta.namespace
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "default".into()),
    );
    pod.metadata.labels = meta.labels;
    pod.metadata.annotations = meta.annotations;
    let uid = content_uid(&pod, file, node).map_err(refused)?;
    let annotations = pod.metadata.annotations.get_or_insert_default();
    // a manifest that was copied from the API may have the annotations of a mirror pod
    annotations.retain(|name, _| !name.starts_with("kubernetes.io/config."));
    let seen = seen.to_string();
    let own = [
        (CONFIG_SOURCE_ANNOTATION, "file"),
        (CONFIG_HASH_ANNOTATION, &uid),
        (SEEN_ANNOTATION, &seen),
        (MANIFEST_ANNOTATION, file),
    ];
    annotations.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
    bind_to_node(pod.spec.get_or_insert_default(), node);
    let pod = kubeapi::complete_pod(serde_json::to_value(&pod).map_err(refused)?)
        .map_err(Error::Invalid)?;
    let mut pod: Pod = serde_json::from_value(pod).map_err(refused)?;
    pod.metadata.uid = Some(uid);
    Ok(pod)
}

/// Binds the pod to this node, and makes it tolerate all taints of effect `NoExecute`.
fn bind_to_node(spec: &mut PodSpec, node: &str) {
    spec.node_name = Some(node.to_owned());
    let tolerations = spec.tolerations.get_or_insert_default();
    let all = Toleration {
        operator: Some("Exists".into()),
        effect: Some("NoExecute".into()),
        ..Toleration::default()
    };
    if !tolerations.contains(&all) {
        tolerations.push(all);
    }
}

/// Returns the uid, 32 hexadecimal digits: a hash of the content, the file name and the node's name.
fn content_uid(pod: &Pod, file: &str, node: &str) -> Result<String, serde_json::Error> {
    let mut context = Context::new(&SHA256);
    for part in [
        node.as_bytes(),
        b"\0",
        file.as_bytes(),
        b"\0",
        &serde_json::to_vec(pod)?,
    ] {
        context.update(part);
    }
    Ok(context
        .finish()
        .as_ref()
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

#[cfg(test)]
mod tests;
