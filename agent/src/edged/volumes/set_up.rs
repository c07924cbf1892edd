//! Sets up the volumes of a pod, and brings them up to date.

use std::path::Path;

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Volume};

use super::{
    atomic,
    claim::{self, Claims},
    empty_dir,
    error::Error,
    host, memory,
    payload::{Files, Payload, Tokens, fs_group},
    place,
};
use crate::edged::{
    downward::Downward,
    fields::{self, Scope},
    names::Dirs,
    references::Objects,
    volume_source::{VolumeSource, volumes},
};

/// A volume that cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("MountVolume.SetUp failed for volume {volume:?} ")]
pub(crate) struct SetUpError {
    volume: String,
    pub(super) source: Error,
}

/// What the pod's volumes are made from, beside the pod itself.
pub(crate) struct Inputs {
    /// ConfigMaps and Secrets.
    pub(crate) objects: Objects,
    /// Tokens of service accounts.
    pub(crate) tokens: Tokens,
    /// What the pod's claims stand for.
    pub(crate) claims: Claims,
}

/// Sets up, or brings up to date, all volumes of the pod. Blocks on the disk. Volumes after one that fails are set up
/// all the same, so that a running pod's others stay fresh; the first failure is the answer.
pub(crate) fn set_up(dirs: &Dirs, downward: &Downward<'_>, inputs: &Inputs) -> Result<(), SetUpError> {
    let mut first = Ok(());
    for volume in volumes(downward.pod) {
        let done = one(dirs, downward, inputs, volume);
        let done = done.map_err(|source| SetUpError { volume: volume.name.clone(), source });
        first = first.and(done);
    }
    first
}

fn one(dirs: &Dirs, downward: &Downward<'_>, inputs: &Inputs, volume: &Volume) -> Result<(), Error> {
    if let Some(refused) = fields::refused(Scope::Volume, volume).into_iter().next() {
        return Err(Error::Refused(refused.message));
    }
    let source = VolumeSource::of(volume).ok_or(Error::Unsupported)?;
    let place = place::own(dirs, downward.pod, &volume.name, source)?;
    let files = Files::new(&volume.name, downward, &inputs.objects, &inputs.tokens);
    let (payload, is_secret) = match source {
        VolumeSource::HostPath(source) => return host::check(source),
        VolumeSource::PersistentVolumeClaim(source) => {
            let claim = inputs.claims.get(&volume.name);
            return claim::set_up(&place, downward.pod, source, claim);
        }
        VolumeSource::EmptyDir(source) => return empty_dir::set_up(&place, source, downward),
        VolumeSource::ConfigMap(source) => (files.of_config_map(source), false),
        VolumeSource::Secret(source) => (files.of_secret(source), true),
        VolumeSource::DownwardApi(source) => (files.of_downward_api(source), true),
        VolumeSource::Projected(source) => (files.of_projected(source), true),
    };
    match payload {
        Ok(payload) => write(&place, &payload, is_secret && dirs.secrets_in_memory, downward),
        // The pod has run with these files before: it may go on, and start again, without the cloud.
        Err(error) if atomic::is_written(&place) => {
            tracing::warn!(volume = volume.name, %error, "a volume keeps the files that it has");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Writes the files of a volume, in memory where they are not to be on a disk.
fn write(place: &Path, payload: &Payload, in_memory: bool, downward: &Downward<'_>) -> Result<(), Error> {
    let group = fs_group(downward.pod);
    if in_memory {
        let bytes = empty_dir::size(&EmptyDirVolumeSource::default(), downward);
        std::fs::create_dir_all(place).map_err(Error::io(place))?;
        memory::provide(place, atomic::DIR_MODE, group, bytes)?;
    }
    atomic::write(place, payload, group)
}
