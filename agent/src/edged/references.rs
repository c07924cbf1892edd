//! Which ConfigMaps and Secrets a pod uses, and what was found of them.

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
    /// By name.
    ConfigMap(String),
    /// By name.
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

/// Keys and contents. No `Debug`: they may be secret.
pub(crate) type Data = Arc<BTreeMap<String, Vec<u8>>>;

/// What became of asking for an object.
#[derive(Clone)]
pub(crate) enum Fetched {
    /// It is here.
    Found(Data),
    /// There is none.
    Missing,
    /// Nobody knows now, with the reason.
    Unavailable(String),
}

/// The objects that were asked for.
#[derive(Clone, Default)]
pub(crate) struct Objects(BTreeMap<Reference, Fetched>);

/// An object or key that a pod needs and that is not there.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Unmet {
    /// No such object.
    #[error("{0} not found")]
    Missing(Reference),
    /// It may exist, the cloud cannot be asked now.
    #[error("{reference} is not on this node and cannot be fetched now: {why}")]
    Unavailable {
        /// The object.
        reference: Reference,
        /// What the API said.
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
    /// The key's content is no text.
    #[error("key {key} in {reference} is not UTF-8 text")]
    Binary {
        /// The object.
        reference: Reference,
        /// The key.
        key: String,
    },
}

impl Objects {
    /// Notes what was found.
    pub(crate) fn insert(&mut self, reference: Reference, fetched: Fetched) {
        self.0.insert(reference, fetched);
    }

    /// The object's data; `None` when it is missing and `optional`.
    pub(crate) fn data(&self, reference: &Reference, optional: bool) -> Result<Option<&Data>, Unmet> {
        match self.0.get(reference) {
            Some(Fetched::Found(data)) => Ok(Some(data)),
            Some(Fetched::Missing) | None if optional => Ok(None),
            Some(Fetched::Missing) | None => Err(Unmet::Missing(reference.clone())),
            Some(Fetched::Unavailable(why)) => {
                Err(Unmet::Unavailable { reference: reference.clone(), why: why.clone() })
            }
        }
    }

    /// One key as text; `None` when object or key is missing and `optional`.
    pub(crate) fn text(
        &self,
        reference: &Reference,
        key: &str,
        optional: bool,
    ) -> Result<Option<String>, Unmet> {
        let Some(data) = self.data(reference, optional)? else { return Ok(None) };
        let unmet = |make: fn(Reference, String) -> Unmet| make(reference.clone(), key.to_owned());
        match data.get(key) {
            Some(bytes) => String::from_utf8(bytes.clone())
                .map(Some)
                .map_err(|_| unmet(|reference, key| Unmet::Binary { reference, key })),
            None if optional => Ok(None),
            None => Err(unmet(|reference, key| Unmet::Key { reference, key })),
        }
    }
}

/// A ConfigMap's keys, text and binary alike.
pub(crate) fn config_map_data(map: ConfigMap) -> Data {
    let text = map.data.into_iter().flatten().map(|(key, value)| (key, value.into_bytes()));
    let binary = map.binary_data.into_iter().flatten().map(|(key, value)| (key, value.0));
    Arc::new(text.chain(binary).collect())
}

/// A Secret's keys.
pub(crate) fn secret_data(secret: Secret) -> Data {
    let text = secret.string_data.into_iter().flatten().map(|(key, value)| (key, value.into_bytes()));
    Arc::new(secret.data.into_iter().flatten().map(|(key, value)| (key, value.0)).chain(text).collect())
}

/// What the container's environment needs.
pub(crate) fn of_env(container: &Container) -> BTreeSet<Reference> {
    let mut all = BTreeSet::new();
    for from in container.env_from.iter().flatten() {
        all.extend(from.config_map_ref.iter().map(|r| Reference::ConfigMap(r.name.clone())));
        all.extend(from.secret_ref.iter().map(|r| Reference::Secret(r.name.clone())));
    }
    for source in container.env.iter().flatten().filter_map(|env| env.value_from.as_ref()) {
        all.extend(source.config_map_key_ref.iter().map(|r| Reference::ConfigMap(r.name.clone())));
        all.extend(source.secret_key_ref.iter().map(|r| Reference::Secret(r.name.clone())));
    }
    all
}

/// What the volume needs.
pub(crate) fn of_volume(volume: &Volume) -> BTreeSet<Reference> {
    let Some(source) = VolumeSource::of(volume) else { return BTreeSet::new() };
    match source {
        VolumeSource::ConfigMap(source) => [Reference::ConfigMap(source.name.clone())].into(),
        VolumeSource::Secret(source) => {
            source.secret_name.clone().map(Reference::Secret).into_iter().collect()
        }
        VolumeSource::Projected(source) => source.sources.iter().flatten().flat_map(of_projection).collect(),
        VolumeSource::HostPath(_)
        | VolumeSource::PersistentVolumeClaim(_)
        | VolumeSource::EmptyDir(_)
        | VolumeSource::DownwardApi(_) => BTreeSet::new(),
    }
}

fn of_projection(source: &VolumeProjection) -> impl Iterator<Item = Reference> {
    let config_map = source.config_map.iter().map(|s| Reference::ConfigMap(s.name.clone()));
    config_map.chain(source.secret.iter().map(|s| Reference::Secret(s.name.clone())))
}

/// The Secrets with which the pod's images are pulled.
pub(crate) fn of_pulls(pod: &Pod) -> BTreeSet<Reference> {
    let secrets = pod.spec.iter().flat_map(|spec| spec.image_pull_secrets.iter().flatten());
    secrets.map(|secret| Reference::Secret(secret.name.clone())).collect()
}

/// Whether the pod uses the object in any way.
pub(crate) fn uses(pod: &Pod, reference: &Reference) -> bool {
    let Some(spec) = &pod.spec else { return false };
    spec.volumes.iter().flatten().any(|volume| of_volume(volume).contains(reference))
        || specs::containers(spec).any(|container| of_env(container).contains(reference))
        || of_pulls(pod).contains(reference)
}
