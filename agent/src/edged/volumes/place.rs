//! Where volumes are on the node.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Pod, Volume};

use super::{claim, error::Error};
use crate::{
    component::is_component,
    edged::{names::Dirs, volume_source::VolumeSource},
};

/// Where the volume is on the node. That of a claim is there only when the pod has been given it.
pub(crate) fn of(dirs: &Dirs, pod: &Pod, volume: &Volume) -> Result<PathBuf, Error> {
    let source = VolumeSource::of(volume).ok_or(Error::Unsupported)?;
    let own = own(dirs, pod, &volume.name, source)?;
    match source {
        VolumeSource::PersistentVolumeClaim(_) => claim::followed(&own),
        VolumeSource::HostPath(_)
        | VolumeSource::EmptyDir(_)
        | VolumeSource::ConfigMap(_)
        | VolumeSource::Secret(_)
        | VolumeSource::DownwardApi(_)
        | VolumeSource::Projected(_) => Ok(own),
    }
}

/// What the pod's directory has of the volume: the volume itself, or the link to it. For a path of the node, that path.
pub(super) fn own(dirs: &Dirs, pod: &Pod, volume: &str, source: VolumeSource<'_>) -> Result<PathBuf, Error> {
    if let VolumeSource::HostPath(source) = source {
        return Ok(PathBuf::from(&source.path));
    }
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    for name in [uid, volume] {
        if !is_component(name) {
            return Err(Error::Escape(name.chars().take(256).collect()));
        }
    }
    Ok(dirs.volume(uid, source.directory(), volume))
}
