//! Finds the paths of a pod's volumes, sets the volumes up and keeps them up to date.

use std::path::{Path, PathBuf};

use fs_err as fs;
use k8s_openapi::api::core::v1::{Pod, Volume};
use wire::names::is_path_component;

use super::{
    atomic,
    claim::{self, Claims},
    empty_dir,
    error::Error,
    host_path, memory,
    payload::{Payload, PayloadBuilder, Tokens},
};
use crate::{
    downward::Downward,
    fields::{self, Scope},
    names::Dirs,
    references::Objects,
    volume_source::{VolumeSource, volumes},
};

/// A volume could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("MountVolume.SetUp failed for volume {volume:?} ")]
pub(crate) struct SetUpError {
    volume: String,
    pub(super) source: Error,
}

/// What the pod's volumes are made from, in addition to the pod itself.
pub(crate) struct Inputs {
    /// ConfigMaps and Secrets.
    pub(crate) objects: Objects,
    /// Tokens of service accounts.
    pub(crate) tokens: Tokens,
    /// Results of looking up the pod's claims.
    pub(crate) claims: Claims,
}

/// Sets up all volumes of the pod, or brings them up to date. Blocks on the disk. If one fails, the others are set up all the
/// same, so that those of a running pod stay up to date; the first error is returned.
pub(crate) fn set_up(
    dirs: &Dirs,
    downward: &Downward<'_>,
    inputs: &Inputs,
) -> Result<(), SetUpError> {
    let mut first = Ok(());
    for volume in volumes(downward.pod) {
        let done = set_up_volume(dirs, downward, inputs, volume);
        let done = done.map_err(|source| SetUpError {
            volume: volume.name.clone(),
            source,
        });
        first = first.and(done);
    }
    first
}

fn set_up_volume(
    dirs: &Dirs,
    downward: &Downward<'_>,
    inputs: &Inputs,
    volume: &Volume,
) -> Result<(), Error> {
    if let Some(refused) = fields::refused_fields(Scope::Volume, volume)
        .into_iter()
        .next()
    {
        return Err(Error::Refused(refused.message));
    }
    let source = VolumeSource::of(volume).ok_or(Error::Unsupported)?;
    let path = path_in_pod(dirs, downward.pod, &volume.name, source)?;
    let builder = PayloadBuilder::new(&volume.name, downward, &inputs.objects, &inputs.tokens);
    let (payload, is_secret) = match source {
        VolumeSource::HostPath(source) => return host_path::check(source),
        VolumeSource::PersistentVolumeClaim(source) => {
            let claim = inputs.claims.get(&volume.name);
            return claim::set_up(&path, downward, source, claim);
        }
        VolumeSource::EmptyDir(source) => return empty_dir::set_up(&path, source, downward),
        VolumeSource::ConfigMap(source) => (builder.of_config_map(source), false),
        VolumeSource::Secret(source) => (builder.of_secret(source), true),
        VolumeSource::DownwardApi(source) => (builder.of_downward_api(source), true),
        VolumeSource::Projected(source) => (builder.of_projected(source), true),
    };
    match payload {
        Ok(payload) => write(
            &path,
            &payload,
            is_secret && dirs.secrets_in_memory,
            downward,
        ),
        // The pod has run with these files before; it may continue and restart with them without the cloud.
        Err(error) if atomic::is_written(&path) => {
            tracing::warn!(volume = volume.name, %error, "failed to update volume; existing files stay");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Writes the files of a volume, into memory if they must not be on a disk.
fn write(
    path: &Path,
    payload: &Payload,
    in_memory: bool,
    downward: &Downward<'_>,
) -> Result<(), Error> {
    if in_memory {
        fs::create_dir_all(path)?;
        memory::ensure_tmpfs(path, atomic::DIR_MODE, None, downward)?;
    }
    atomic::write(path, payload, downward.fs_group())
}

/// Returns the path of the volume on the node. That of a claim exists only after the volume was linked into the pod's directory.
pub(crate) fn volume_path(dirs: &Dirs, pod: &Pod, volume: &Volume) -> Result<PathBuf, Error> {
    let source = VolumeSource::of(volume).ok_or(Error::Unsupported)?;
    let path = path_in_pod(dirs, pod, &volume.name, source)?;
    match source {
        VolumeSource::PersistentVolumeClaim(_) => claim::linked_path(&path),
        VolumeSource::HostPath(_)
        | VolumeSource::EmptyDir(_)
        | VolumeSource::ConfigMap(_)
        | VolumeSource::Secret(_)
        | VolumeSource::DownwardApi(_)
        | VolumeSource::Projected(_) => Ok(path),
    }
}

/// Returns the path of the volume in the pod's directory: the volume itself or the link to it. For a host path it is that path.
fn path_in_pod(
    dirs: &Dirs,
    pod: &Pod,
    volume: &str,
    source: VolumeSource<'_>,
) -> Result<PathBuf, Error> {
    if let VolumeSource::HostPath(source) = source {
        return Ok(PathBuf::from(&source.path));
    }
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let mut names = [uid, volume].into_iter();
    if let Some(name) = names.find(|name| !is_path_component(name)) {
        return Err(Error::path_escape(name));
    }
    Ok(dirs.volume(uid, source.directory(), volume))
}
