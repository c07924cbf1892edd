//! The ConfigMaps and Secrets that a pod refers to, and their content.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, Secret, Volume, VolumeProjection};

use super::{specs, volume_source::VolumeSource};

/// A ConfigMap or Secret in the pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reference {
    /// A ConfigMap, by name.
    ConfigMap(String),
    /// A Secret, by name.
    Secret(String),
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reference::ConfigMap(name) => write!(f, "configmap {name:?}"),
            Reference::Secret(name) => write!(f, "secret {name:?}"),
        }
    }
}

/// Keys and values of an object. Has no `Debug`, as values may be secret.
pub(crate) type Data = Arc<BTreeMap<String, Vec<u8>>>;

/// The result of fetching an object.
#[derive(Clone)]
pub(crate) enum Fetched {
    /// The object's data.
    Found(Data),
    /// The object does not exist.
    Missing,
    /// It is unknown whether the object exists; holds the reason.
    Unavailable(String),
}

/// The fetched objects.
#[derive(Clone, Default)]
pub(crate) struct Objects(BTreeMap<Reference, Fetched>);

/// Why a reference cannot be resolved.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum ReferenceError {
    /// The object does not exist.
    #[error("{0} not found")]
    Missing(Reference),
    /// The object may exist, but cannot be fetched now.
    #[error("{reference} is not on this node and cannot be fetched now: {why}")]
    Unavailable {
        /// The object.
        reference: Reference,
        /// The API's error.
        why: String,
    },
    /// The object has no such key.
    #[error("couldn't find key {key} in {reference}")]
    Key {
        /// The object.
        reference: Reference,
        /// The key.
        key: String,
    },
    /// The key's value is not UTF-8.
    #[error("key {key} in {reference} is not UTF-8 text")]
    Binary {
        /// The object.
        reference: Reference,
        /// The key.
        key: String,
    },
}

impl Objects {
    /// Stores the result of fetching an object.
    pub(crate) fn insert(&mut self, reference: Reference, fetched: Fetched) {
        self.0.insert(reference, fetched);
    }

    /// Returns the object's data, or `None` if it is missing and `optional`.
    pub(crate) fn data(
        &self,
        reference: &Reference,
        optional: bool,
    ) -> Result<Option<&Data>, ReferenceError> {
        match self.0.get(reference) {
            Some(Fetched::Found(data)) => Ok(Some(data)),
            Some(Fetched::Missing) | None if optional => Ok(None),
            Some(Fetched::Missing) | None => Err(ReferenceError::Missing(reference.clone())),
            Some(Fetched::Unavailable(why)) => Err(ReferenceError::Unavailable {
                reference: reference.clone(),
                why: why.clone(),
            }),
        }
    }

    /// Returns the value of a key as text, or `None` if object or key is missing and `optional`.
    pub(crate) fn text(
        &self,
        reference: &Reference,
        key: &str,
        optional: bool,
    ) -> Result<Option<String>, ReferenceError> {
        let Some(data) = self.data(reference, optional)? else {
            return Ok(None);
        };
        let unmet =
            |make: fn(Reference, String) -> ReferenceError| make(reference.clone(), key.to_owned());
        match data.get(key) {
            Some(bytes) => String::from_utf8(bytes.clone())
                .map(Some)
                .map_err(|_| unmet(|reference, key| ReferenceError::Binary { reference, key })),
            None if optional => Ok(None),
            None => Err(unmet(|reference, key| ReferenceError::Key {
                reference,
                key,
            })),
        }
    }
}

/// Returns a ConfigMap's text and binary keys.
pub(crate) fn config_map_data(map: ConfigMap) -> Data {
    let text = map
        .data
        .into_iter()
        .flatten()
        .map(|(key, value)| (key, value.into_bytes()));
    let binary = map
        .binary_data
        .into_iter()
        .flatten()
        .map(|(key, value)| (key, value.0));
    Arc::new(text.chain(binary).collect())
}

/// Returns a Secret's keys.
pub(crate) fn secret_data(secret: Secret) -> Data {
    let text = secret
        .string_data
        .into_iter()
        .flatten()
        .map(|(key, value)| (key, value.into_bytes()));
    Arc::new(
        secret
            .data
            .into_iter()
            .flatten()
            .map(|(key, value)| (key, value.0))
            .chain(text)
            .collect(),
    )
}

/// Returns the objects to which the container's environment refers.
pub(crate) fn of_env(container: &Container) -> BTreeSet<Reference> {
    let mut all = BTreeSet::new();
    for from in container.env_from.iter().flatten() {
        all.extend(
            from.config_map_ref
                .iter()
                .map(|r| Reference::ConfigMap(r.name.clone())),
        );
        all.extend(
            from.secret_ref
                .iter()
                .map(|r| Reference::Secret(r.name.clone())),
        );
    }
    for source in container
        .env
        .iter()
        .flatten()
        .filter_map(|env| env.value_from.as_ref())
    {
        all.extend(
            source
                .config_map_key_ref
                .iter()
                .map(|r| Reference::ConfigMap(r.name.clone())),
        );
        all.extend(
            source
                .secret_key_ref
                .iter()
                .map(|r| Reference::Secret(r.name.clone())),
        );
    }
    all
}

/// Returns the objects to which the volume refers.
pub(crate) fn of_volume(volume: &Volume) -> BTreeSet<Reference> {
    let Some(source) = VolumeSource::of(volume) else {
        return BTreeSet::new();
    };
    match source {
        VolumeSource::ConfigMap(source) => [Reference::ConfigMap(source.name.clone())].into(),
        VolumeSource::Secret(source) => source
            .secret_name
            .clone()
            .map(Reference::Secret)
            .into_iter()
            .collect(),
        VolumeSource::Projected(source) => source
            .sources
            .iter()
            .flatten()
            .flat_map(of_projection)
            .collect(),
        VolumeSource::HostPath(_)
        | VolumeSource::PersistentVolumeClaim(_)
        | VolumeSource::EmptyDir(_)
        | VolumeSource::DownwardApi(_) => BTreeSet::new(),
    }
}

fn of_projection(source: &VolumeProjection) -> impl Iterator<Item = Reference> {
    let config_map = source
        .config_map
        .iter()
        .map(|s| Reference::ConfigMap(s.name.clone()));
    config_map.chain(
        source
            .secret
            .iter()
            .map(|s| Reference::Secret(s.name.clone())),
    )
}

/// Returns the Secrets with which the pod's images are pulled.
pub(crate) fn of_image_pulls(pod: &Pod) -> BTreeSet<Reference> {
    let secrets = pod
        .spec
        .iter()
        .flat_map(|spec| spec.image_pull_secrets.iter().flatten());
    secrets
        .map(|secret| Reference::Secret(secret.name.clone()))
        .collect()
}

/// Reports whether the pod refers to the object.
pub(crate) fn uses(pod: &Pod, reference: &Reference) -> bool {
    let Some(spec) = &pod.spec else { return false };
    spec.volumes
        .iter()
        .flatten()
        .any(|volume| of_volume(volume).contains(reference))
        || specs::containers(spec).any(|container| of_env(container).contains(reference))
        || of_image_pulls(pod).contains(reference)
}
