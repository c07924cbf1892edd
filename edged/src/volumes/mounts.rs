//! Makes the mounts of a container. Blocks on the disk, as sub-paths are resolved.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Container, Pod, VolumeMount};
use wire::cri;

use super::{error::Error, set_up::volume_path, sub_path};
use crate::{
    convert::termination_message_path,
    env::Environment,
    names::Dirs,
    volume_source::{VolumeSource, volumes},
};

/// What the mounts of a container are made from.
pub(crate) struct MountInputs<'a> {
    /// The directories of pods.
    pub(crate) dirs: &'a Dirs,
    /// The pod, whose volumes are set up.
    pub(crate) pod: &'a Pod,
    /// The pod's own `/etc/hosts`.
    pub(crate) etc_hosts: PathBuf,
    /// The file for the container's termination message.
    pub(crate) termination_message: PathBuf,
    /// Whether the runtime supports recursive read-only mounts.
    pub(crate) recursive: bool,
}

/// Reports whether a mount of the container asks for recursive read-only, which not every runtime supports.
pub(crate) fn may_be_recursive(container: &Container) -> bool {
    container
        .volume_mounts
        .iter()
        .flatten()
        .any(wants_recursive)
}

/// Reports whether the mount asks for recursive read-only. `Enabled` has been refused before if the runtime does not support it;
/// `IfPossible` has not.
fn wants_recursive(mount: &VolumeMount) -> bool {
    matches!(
        mount.recursive_read_only.as_deref(),
        Some("Enabled" | "IfPossible")
    )
}

/// Returns the container's mounts.
pub(crate) fn of_container(
    inputs: &MountInputs<'_>,
    container: &Container,
    environment: &Environment,
) -> Result<Vec<cri::Mount>, Error> {
    let mounts = container.volume_mounts.iter().flatten();
    let mut all = mounts
        .enumerate()
        .map(|(index, mount)| mount_of_volume(inputs, container, index, mount, environment))
        .collect::<Result<Vec<cri::Mount>, Error>>()?;
    // A mount of the pod at the same path takes precedence.
    for (path, file) in [
        ("/etc/hosts", &inputs.etc_hosts),
        (
            termination_message_path(container),
            &inputs.termination_message,
        ),
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

fn mount_of_volume(
    inputs: &MountInputs<'_>,
    container: &Container,
    index: usize,
    mount: &VolumeMount,
    environment: &Environment,
) -> Result<cri::Mount, Error> {
    let volume = volumes(inputs.pod)
        .find(|volume| volume.name == mount.name)
        .ok_or_else(|| Error::NoVolume(mount.name.clone()))?;
    let root = volume_path(inputs.dirs, inputs.pod, volume)?;
    let source = VolumeSource::of(volume).ok_or(Error::Unsupported)?;
    let expanded = mount.sub_path_expr.as_deref().map(|text| {
        // An incomplete path would be another path.
        environment
            .expand_all(text)
            .ok_or_else(|| Error::Variable(text.chars().take(256).collect()))
    });
    let expanded = expanded.transpose()?;
    let sub = expanded
        .as_deref()
        .or(mount.sub_path.as_deref())
        .filter(|sub| !sub.is_empty());
    let host_path = match sub {
        Some(sub) => {
            let uid = inputs.pod.metadata.uid.as_deref().unwrap_or_default();
            let bound = inputs
                .dirs
                .sub_paths(uid)
                .join(&volume.name)
                .join(&container.name);
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
        recursive_read_only: inputs.recursive
            && mount.read_only == Some(true)
            && wants_recursive(mount),
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
    if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    }
}
