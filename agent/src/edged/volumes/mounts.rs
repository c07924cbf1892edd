//! Volumes as mounts of one container. Blocks on the disk: a `subPath` is followed.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::{Container, Pod, VolumeMount};
use wire::cri;

use super::{Error, atomic, place};
use crate::edged::{convert::last_words_path, env::Environment, names, names::Dirs};

/// Where everything is.
pub(crate) struct Places<'a> {
    /// Of all pods.
    pub(crate) dirs: &'a Dirs,
    /// The pod, whose volumes are set up.
    pub(crate) pod: &'a Pod,
    /// The pod's own `/etc/hosts`.
    pub(crate) etc_hosts: PathBuf,
    /// The file for the container's last words.
    pub(crate) last_words: PathBuf,
}

/// The container's mounts.
pub(crate) fn of_container(
    places: &Places<'_>,
    container: &Container,
    environment: &Environment,
) -> Result<Vec<cri::Mount>, Error> {
    let mounts = container.volume_mounts.iter().flatten();
    let mut all =
        mounts.map(|mount| one(places, mount, environment)).collect::<Result<Vec<cri::Mount>, Error>>()?;
    // Where the pod has a mount of its own, that counts.
    for (path, file) in [("/etc/hosts", &places.etc_hosts), (last_words_path(container), &places.last_words)]
    {
        if !all.iter().any(|mount| mount.container_path == path) {
            all.push(cri::Mount {
                container_path: path.to_owned(),
                host_path: file.to_string_lossy().into_owned(),
                ..Default::default()
            });
        }
    }
    Ok(all)
}

fn one(places: &Places<'_>, mount: &VolumeMount, environment: &Environment) -> Result<cri::Mount, Error> {
    let volumes = places.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let volume = volumes
        .into_iter()
        .find(|volume| volume.name == mount.name)
        .ok_or_else(|| Error::NoVolume(mount.name.clone()))?;
    let root = place(places.dirs, places.pod, volume)?;
    let expanded = mount.sub_path_expr.as_deref().map(|text| {
        // Half a path would be another place.
        environment.expand_all(text).ok_or_else(|| Error::Variable(text.chars().take(256).collect()))
    });
    let expanded = expanded.transpose()?;
    let sub = expanded.as_deref().or(mount.sub_path.as_deref()).filter(|sub| !sub.is_empty());
    let host_path = match sub {
        Some(sub) => sub_path(&root, sub)?,
        None => root,
    };
    let made_from_objects = volume.host_path.is_none() && volume.empty_dir.is_none();
    Ok(cri::Mount {
        container_path: absolute(&mount.mount_path),
        host_path: host_path.to_string_lossy().into_owned(),
        // What is made from objects belongs to the cloud; a container that writes there would only lose it.
        readonly: mount.read_only.unwrap_or(false) || made_from_objects,
        propagation: match mount.mount_propagation.as_deref() {
            Some("HostToContainer") => cri::MountPropagation::PropagationHostToContainer,
            Some("Bidirectional") => cri::MountPropagation::PropagationBidirectional,
            _ => cri::MountPropagation::PropagationPrivate,
        } as i32,
        ..Default::default()
    })
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

/// The real path of `sub` in the volume; made as a directory when it is not there. Links are followed, but never out of
/// the volume: its content may be another container's work.
fn sub_path(root: &Path, sub: &str) -> Result<PathBuf, Error> {
    let escape = || Error::Escape(sub.chars().take(256).collect());
    if !names::is_below(Path::new(sub)) {
        return Err(escape());
    }
    let root = fs::canonicalize(root).map_err(Error::io(root))?;
    let mut at = root.clone();
    for part in Path::new(sub).components() {
        let next = at.join(part);
        at = match fs::canonicalize(&next) {
            Ok(real) if real.starts_with(&root) => real,
            Ok(_) => return Err(escape()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(&next).is_err() => {
                fs::create_dir(&next).map_err(Error::io(&next))?;
                atomic::set_mode(&next, 0o777)?;
                next
            }
            Err(error) => return Err(Error::io(next)(error)),
        };
    }
    Ok(at)
}
