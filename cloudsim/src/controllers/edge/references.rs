//! The ConfigMaps and Secrets that a pod references: its node is sent them, and may ask for them. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, Pod, PodSpec, Volume};

use crate::mailbox::{ObjectKind, ObjectPath};

/// Returns every ConfigMap and Secret that `pod` references, in init and ephemeral containers as well.
pub(super) fn references(pod: &Pod) -> BTreeSet<ObjectPath> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let mut found = Found {
        namespace,
        paths: BTreeSet::new(),
    };
    if let Some(spec) = &pod.spec {
        found.spec(spec);
    }
    found.paths
}

/// Returns the names of the persistent volume claims that the pod uses, including those of ephemeral volumes.
pub(super) fn claims(pod: &Pod) -> BTreeSet<String> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    let claims =
        volumes.filter_map(
            |volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
                (Some(source), _) => Some(source.claim_name.clone()),
                (None, Some(_)) => Some(format!("{name}-{}", volume.name)),
                (None, None) => None,
            },
        );
    claims.collect()
}

/// Returns the audiences of the tokens in the pod's projected volumes, except the API's own.
pub(super) fn audiences(pod: &Pod) -> BTreeSet<String> {
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    let projected = volumes.flat_map(|volume| &volume.projected);
    let sources = projected.flat_map(|projected| projected.sources.iter().flatten());
    let tokens = sources.filter_map(|source| source.service_account_token.as_ref());
    tokens.filter_map(|token| token.audience.clone()).collect()
}

struct Found<'a> {
    namespace: &'a str,
    paths: BTreeSet<ObjectPath>,
}

impl Found<'_> {
    fn config_map(&mut self, name: &str) {
        self.paths
            .insert(ObjectPath::new(ObjectKind::ConfigMap, self.namespace, name));
    }

    fn secret(&mut self, name: &str) {
        self.paths
            .insert(ObjectPath::new(ObjectKind::Secret, self.namespace, name));
    }

    fn spec(&mut self, spec: &PodSpec) {
        for pull in spec.image_pull_secrets.iter().flatten() {
            self.secret(&pull.name);
        }
        spec.volumes
            .iter()
            .flatten()
            .for_each(|volume| self.volume(volume));
        for container in spec
            .containers
            .iter()
            .chain(spec.init_containers.iter().flatten())
        {
            self.environment(container.env.as_deref(), container.env_from.as_deref());
        }
        for container in spec.ephemeral_containers.iter().flatten() {
            self.environment(container.env.as_deref(), container.env_from.as_deref());
        }
    }

    fn volume(&mut self, volume: &Volume) {
        if let Some(source) = &volume.config_map {
            self.config_map(&source.name);
        }
        if let Some(name) = volume
            .secret
            .as_ref()
            .and_then(|source| source.secret_name.as_deref())
        {
            self.secret(name);
        }
        for source in volume
            .projected
            .iter()
            .flat_map(|projected| projected.sources.iter().flatten())
        {
            if let Some(projection) = &source.config_map {
                self.config_map(&projection.name);
            }
            if let Some(projection) = &source.secret {
                self.secret(&projection.name);
            }
        }
    }

    fn environment(&mut self, env: Option<&[EnvVar]>, env_from: Option<&[EnvFromSource]>) {
        for source in env
            .into_iter()
            .flatten()
            .filter_map(|variable| variable.value_from.as_ref())
        {
            if let Some(key) = &source.config_map_key_ref {
                self.config_map(&key.name);
            }
            if let Some(key) = &source.secret_key_ref {
                self.secret(&key.name);
            }
        }
        for source in env_from.into_iter().flatten() {
            if let Some(map) = &source.config_map_ref {
                self.config_map(&map.name);
            }
            if let Some(secret) = &source.secret_ref {
                self.secret(&secret.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_reference_is_found() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "ns"},
            "spec": {
                "imagePullSecrets": [{"name": "pull"}],
                "volumes": [
                    {"name": "a", "configMap": {"name": "cm-volume"}},
                    {"name": "b", "secret": {"secretName": "secret-volume"}},
                    {"name": "c", "projected": {"sources": [
                        {"configMap": {"name": "cm-projected"}}, {"secret": {"name": "secret-projected"}}]}},
                ],
                "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "cm-init"}}]}],
                "containers": [{"name": "c",
                    "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm-env", "key": "k"}}},
                            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "secret-env", "key": "k"}}}],
                    "envFrom": [{"secretRef": {"name": "secret-from"}}]}],
            },
        }))
        .unwrap();
        let names: Vec<String> = references(&pod).into_iter().map(|path| path.name).collect();
        assert_eq!(
            names,
            [
                "cm-env",
                "cm-init",
                "cm-projected",
                "cm-volume",
                "pull",
                "secret-env",
                "secret-from",
                "secret-projected",
                "secret-volume"
            ]
        );
    }
}
