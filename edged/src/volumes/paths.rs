//! Paths of volumes on the node.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Pod, Volume};
use wire::names::is_path_component;

use super::{claim, error::Error};
use crate::{names::Dirs, volume_source::VolumeSource};

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
pub(super) fn path_in_pod(
    dirs: &Dirs,
    pod: &Pod,
    volume: &str,
    source: VolumeSource<'_>,
) -> Result<PathBuf, Error> {
    if let VolumeSource::HostPath(source) = source {
        return Ok(PathBuf::from(&source.path));
    }
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    for name in [uid, volume] {
        if !is_path_component(name) {
            return Err(Error::PathEscape(name.chars().take(256).collect()));
        }
    }
    Ok(dirs.volume(uid, source.directory(), volume))
}
