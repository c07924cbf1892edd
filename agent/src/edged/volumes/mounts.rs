//! Volumes as mounts of one container. Blocks on the disk: a `subPath` is followed.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Container, Pod, VolumeMount};
use wire::cri;

use super::{error::Error, place, sub_path};
use crate::edged::{
    convert::termination_message_path,
    env::Environment,
    names::Dirs,
    volume_source::{VolumeSource, volumes},
};

/// Where everything is.
pub(crate) struct Places<'a> {
    /// Of all pods.
    pub(crate) dirs: &'a Dirs,
    /// The pod, whose volumes are set up.
    pub(crate) pod: &'a Pod,
    /// The pod's own `/etc/hosts`.
    pub(crate) etc_hosts: PathBuf,
    /// The file for the container's last words.
    pub(crate) termination_message: PathBuf,
    /// Whether the runtime can mount read-only with all that is mounted below.
    pub(crate) recursive: bool,
}

/// Whether a mount of the container asks for what not every runtime can do.
pub(crate) fn may_be_recursive(container: &Container) -> bool {
    container.volume_mounts.iter().flatten().any(wants_recursive)
}

/// `Enabled` is refused beforehand where the runtime cannot do it, `IfPossible` is not.
fn wants_recursive(mount: &VolumeMount) -> bool {
    matches!(mount.recursive_read_only.as_deref(), Some("Enabled" | "IfPossible"))
}

/// The container's mounts.
pub(crate) fn of_container(
    places: &Places<'_>,
    container: &Container,
    environment: &Environment,
) -> Result<Vec<cri::Mount>, Error> {
    let mounts = container.volume_mounts.iter().flatten();
    let mut all = mounts
        .enumerate()
        .map(|(index, mount)| one(places, container, index, mount, environment))
        .collect::<Result<Vec<cri::Mount>, Error>>()?;
    // Where the pod has a mount of its own, that counts.
    for (path, file) in [
        ("/etc/hosts", &places.etc_hosts),
        (termination_message_path(container), &places.termination_message),
    ] {
        if !all.iter().any(|mount| mount.container_path == path) {
            all.push(cri::Mount {
                container_path: path.to_owned(),
                host_path: file.to_string_lossy().into_owned(),
                selinux_relabel: true,
                ..Default::default()
            });
        }
    }
    Ok(all)
}

fn one(
    places: &Places<'_>,
    container: &Container,
    index: usize,
    mount: &VolumeMount,
    environment: &Environment,
) -> Result<cri::Mount, Error> {
    let volume = volumes(places.pod)
        .find(|volume| volume.name == mount.name)
        .ok_or_else(|| Error::NoVolume(mount.name.clone()))?;
    let root = place::of(places.dirs, places.pod, volume)?;
    let source = VolumeSource::of(volume).ok_or(Error::Unsupported)?;
    let expanded = mount.sub_path_expr.as_deref().map(|text| {
        // Half a path would be another place.
        environment.expand_all(text).ok_or_else(|| Error::Variable(text.chars().take(256).collect()))
    });
    let expanded = expanded.transpose()?;
    let sub = expanded.as_deref().or(mount.sub_path.as_deref()).filter(|sub| !sub.is_empty());
    let host_path = match sub {
        Some(sub) => {
            let uid = places.pod.metadata.uid.as_deref().unwrap_or_default();
            let bound = places.dirs.sub_paths(uid).join(&volume.name).join(&container.name);
            let both_ways = mount.mount_propagation.as_deref() == Some("Bidirectional");
            sub_path::bind(&root, sub, &bound.join(index.to_string()), both_ways)?
        }
        None => root,
    };
    let options = source.mount_options();
    Ok(cri::Mount {
        container_path: absolute(&mount.mount_path),
        host_path: host_path.to_string_lossy().into_owned(),
        readonly: mount.read_only.unwrap_or(false) || options.read_only,
        recursive_read_only: places.recursive && mount.read_only == Some(true) && wants_recursive(mount),
        selinux_relabel: options.relabel,
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
