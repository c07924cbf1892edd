//! The objects that a pod needs before its containers start.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    ConfigMap, Container, PersistentVolumeClaim, Pod, PodSpec, Secret, Volume,
};
use kube::{Api, Client, ResourceExt};

/// Kind and name of an object in the pod's namespace.
type Reference = (&'static str, String);

const CONFIG_MAP: &str = "ConfigMap";
const SECRET: &str = "Secret";
const CLAIM: &str = "PersistentVolumeClaim";

/// Returns the objects that volumes and variables name and that are not optional. Pure.
fn references(pod: &Pod) -> BTreeSet<Reference> {
    let Some(spec) = &pod.spec else {
        return BTreeSet::new();
    };
    let volumes = spec.volumes.iter().flatten();
    let of_volumes = volumes.flat_map(|volume| of_volume(pod, volume));
    of_volumes
        .chain(containers(spec).flat_map(of_variables))
        .collect()
}

fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers
        .iter()
        .flatten()
        .chain(&spec.containers)
}

fn reference(kind: &'static str, name: &str, optional: Option<bool>) -> Option<Reference> {
    (!name.is_empty() && optional != Some(true)).then(|| (kind, name.to_owned()))
}

fn of_volume(pod: &Pod, volume: &Volume) -> Vec<Reference> {
    let mut found = Vec::new();
    if let Some(source) = &volume.config_map {
        found.extend(reference(CONFIG_MAP, &source.name, source.optional));
    }
    if let Some(source) = &volume.secret {
        let name = source.secret_name.as_deref().unwrap_or_default();
        found.extend(reference(SECRET, name, source.optional));
    }
    if let Some(source) = &volume.persistent_volume_claim {
        found.extend(reference(CLAIM, &source.claim_name, None));
    }
    if volume.ephemeral.is_some() {
        let name = format!("{}-{}", pod.name_any(), volume.name);
        found.extend(reference(CLAIM, &name, None));
    }
    let projected = volume.projected.iter();
    for source in projected.flat_map(|projected| projected.sources.iter().flatten()) {
        if let Some(source) = &source.config_map {
            found.extend(reference(CONFIG_MAP, &source.name, source.optional));
        }
        if let Some(source) = &source.secret {
            found.extend(reference(SECRET, &source.name, source.optional));
        }
    }
    found
}

fn of_variables(container: &Container) -> Vec<Reference> {
    let mut found = Vec::new();
    for source in container.env_from.iter().flatten() {
        if let Some(source) = &source.config_map_ref {
            found.extend(reference(CONFIG_MAP, &source.name, source.optional));
        }
        if let Some(source) = &source.secret_ref {
            found.extend(reference(SECRET, &source.name, source.optional));
        }
    }
    let variables = container.env.iter().flatten();
    for source in variables.filter_map(|variable| variable.value_from.as_ref()) {
        if let Some(source) = &source.config_map_key_ref {
            found.extend(reference(CONFIG_MAP, &source.name, source.optional));
        }
        if let Some(source) = &source.secret_key_ref {
            found.extend(reference(SECRET, &source.name, source.optional));
        }
    }
    found
}

/// Returns a line for each object that the pod needs and that is missing. Payloads are not read. Objects that the user may not read are
/// left out.
///
/// # Errors
/// The API does not answer.
pub(super) async fn missing(client: &Client, pod: &Pod) -> Result<Vec<String>, kube::Error> {
    let namespace = pod.namespace().unwrap_or_default();
    let mut lines = Vec::new();
    for (kind, name) in references(pod) {
        let exists = match kind {
            CONFIG_MAP => exists::<ConfigMap>(client, &namespace, &name).await?,
            SECRET => exists::<Secret>(client, &namespace, &name).await?,
            _ => exists::<PersistentVolumeClaim>(client, &namespace, &name).await?,
        };
        if exists == Some(false) {
            lines.push(format!("the {kind} {name} does not exist in {namespace}"));
        } else if kind == CLAIM && exists == Some(true) {
            let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), &namespace);
            let status = claims.get_opt(&name).await?.and_then(|claim| claim.status);
            let phase = status.and_then(|status| status.phase).unwrap_or_default();
            if phase != "Bound" {
                lines.push(format!(
                    "the {kind} {name} is not bound to a volume ({phase})"
                ));
            }
        }
    }
    Ok(lines)
}

/// Reports whether the object exists; `None` if the user may not read it.
async fn exists<K>(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<bool>, kube::Error>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let api = Api::<K>::namespaced(client.clone(), namespace);
    match api.get_metadata_opt(name).await {
        Ok(found) => Ok(Some(found.is_some())),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_way_to_name_an_object_is_found() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "spec": {
                "volumes": [
                    {"name": "a", "configMap": {"name": "c1"}},
                    {"name": "b", "configMap": {"name": "c-optional", "optional": true}},
                    {"name": "c", "secret": {"secretName": "s1"}},
                    {"name": "d", "persistentVolumeClaim": {"claimName": "v1"}},
                    {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                    {"name": "f", "projected": {"sources": [{"configMap": {"name": "c2"}}, {"secret": {"name": "s2"}}]}},
                    {"name": "g", "emptyDir": {}},
                ],
                "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "s3"}}, {"configMapRef": {"name": "c3"}}]}],
                "containers": [{"name": "c", "env": [
                    {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s4", "key": "k"}}},
                    {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c4", "key": "k"}}},
                    {"name": "C", "value": "x"},
                ]}],
            },
        }))
        .unwrap();
        let found: Vec<String> = references(&pod).into_iter().map(|(_, name)| name).collect();
        let expected = ["c1", "c2", "c3", "c4", "p-e", "v1", "s1", "s2", "s3", "s4"];
        assert_eq!(found, expected);
    }
}
