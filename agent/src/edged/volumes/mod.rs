//! A pod's volumes on disk, in the kubelet's layout: `<root>/pods/<uid>/volumes/kubernetes.io~<plugin>/<name>`.
//!
//! [`mod@payload`] decides what is in the files of configMap, secret, downwardAPI and projected volumes, [`atomic`] writes them,
//! [`mod@empty_dir`] makes empty ones, [`memory`] keeps those off the disk that hold secrets, [`host`] looks at the node's own paths, [`claim`] at the volumes behind claims, which [`ownership`] gives to the pod's group;
//! [`mounts`] puts it all into containers, of which [`sub_path`] may see a part only; [`mounted`] takes it away again.

mod atomic;
mod claim;
mod empty_dir;
mod host;
mod memory;
mod mounted;
mod mounts;
mod ownership;
mod payload;
mod sub_path;
#[cfg(test)]
mod tests;
pub(crate) mod token;

use std::{
    io,
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Pod, Volume};

use self::payload::fs_group;
pub(crate) use self::{
    claim::{Backing, ClaimError, Claims, backing, is_given, volume_name},
    mounts::{Places, may_be_recursive, of_container},
    payload::{Payload, Tokens, payload},
};
use super::{
    downward::{self, Downward},
    fields::{self, Scope},
    names::Dirs,
    references::{Objects, Unmet},
};
use crate::component;

/// Why a volume or mount cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A ConfigMap, Secret or key is not there.
    #[error(transparent)]
    Unmet(#[from] Unmet),
    /// A reference of the downward API leads nowhere.
    #[error(transparent)]
    Downward(#[from] downward::Error),
    /// A token is needed and cannot be had.
    #[error("no token of service account {0:?}: {1}")]
    Token(String, String),
    /// A kind of volume, or a part of one, that this agent does not have.
    #[error("{0}")]
    Refused(String),
    /// A volume of a kind that did not exist when this was written.
    #[error(
        "its type is not supported on this node: use emptyDir, hostPath, persistentVolumeClaim, configMap, secret, \
         downwardAPI or projected"
    )]
    Unsupported,
    /// A claim gives no volume.
    #[error("error processing PVC {claim}")]
    Claim {
        /// Namespace and name.
        claim: String,
        /// Why.
        source: ClaimError,
    },
    /// Directories in directories in directories.
    #[error(
        "{0} is too deep below its volume to be given to the pod's fsGroup; take fsGroup out, or tidy up"
    )]
    Deep(PathBuf),
    /// A name or path that would lead out of the volume.
    #[error("path {0:?} leads out of the volume")]
    Escape(String),
    /// Two files of one name.
    #[error("path {0:?} would be written twice")]
    Twice(String),
    /// What is on the node is not what the pod asks for.
    #[error("hostPath type check failed: {0} is not a {1}")]
    HostPath(PathBuf, String),
    /// A variable in a subPathExpr that is not there.
    #[error("subPathExpr {0:?} has a variable that is not in the container's env")]
    Variable(String),
    /// A mount of a volume that is not there.
    #[error("volume {0:?} is not in the pod's volumes")]
    NoVolume(String),
    /// What is mounted in a pod's directory is not the pod's.
    #[error(
        "{path} is mounted in the directory of a pod that is gone, and cannot be unmounted; unmount it, or run the agent \
         with the right to (CAP_SYS_ADMIN)"
    )]
    Mounted {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The disk refused.
    #[error("cannot use {path}; check that the disk has room and the agent may write there")]
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

/// A volume that cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("MountVolume.SetUp failed for volume {volume:?} ")]
pub(crate) struct SetUpError {
    volume: String,
    source: Error,
}

/// Sets up, or brings up to date, all volumes of the pod. Blocks on the disk. Volumes after one that fails are set up
/// all the same, so that a running pod's others stay fresh; the first failure is the answer.
pub(crate) fn set_up(
    dirs: &Dirs,
    downward: &Downward<'_>,
    objects: &Objects,
    tokens: &Tokens,
    claims: &Claims,
) -> Result<(), SetUpError> {
    let mut first = Ok(());
    let volumes = downward.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    for volume in volumes {
        let done = one(dirs, downward, (objects, tokens, claims), volume);
        let done = done.map_err(|source| SetUpError { volume: volume.name.clone(), source });
        first = first.and(done);
    }
    first
}

fn one(
    dirs: &Dirs,
    downward: &Downward<'_>,
    (objects, tokens, claims): (&Objects, &Tokens, &Claims),
    volume: &Volume,
) -> Result<(), Error> {
    if let Some(source) = &volume.host_path {
        return host::check(source);
    }
    if let Some(refused) = fields::refused(Scope::Volume, volume).into_iter().next() {
        return Err(Error::Refused(refused.message));
    }
    let place = own(dirs, downward.pod, volume)?;
    if volume.persistent_volume_claim.is_some() {
        return claim::set_up(&place, downward.pod, volume, claims);
    }
    if let Some(source) = &volume.empty_dir {
        return empty_dir::set_up(&place, source, downward);
    }
    match payload(volume, objects, downward, tokens) {
        Ok(Some(payload)) => {
            let group = fs_group(downward.pod);
            if dirs.secrets_in_memory && volume.config_map.is_none() {
                let bytes = empty_dir::size(&EmptyDirVolumeSource::default(), downward);
                std::fs::create_dir_all(&place).map_err(Error::io(&place))?;
                memory::provide(&place, atomic::DIR_MODE, group, bytes)?;
            }
            atomic::write(&place, &payload, group)
        }
        Ok(None) => Err(Error::Unsupported),
        // The pod has run with these files before: it may go on, and start again, without the cloud.
        Err(error) if atomic::is_written(&place) => {
            tracing::warn!(volume = volume.name, %error, "a volume keeps the files that it has");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Where the volume is on the node.
fn place(dirs: &Dirs, pod: &Pod, volume: &Volume) -> Result<PathBuf, Error> {
    if let Some(source) = &volume.host_path {
        return Ok(PathBuf::from(&source.path));
    }
    let own = own(dirs, pod, volume)?;
    if volume.persistent_volume_claim.is_some() { claim::followed(&own) } else { Ok(own) }
}

/// What the pod's directory has of the volume: the volume itself, or the link to it.
fn own(dirs: &Dirs, pod: &Pod, volume: &Volume) -> Result<PathBuf, Error> {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    for name in [uid, &volume.name] {
        if !component::is_component(name) {
            return Err(Error::Escape(name.chars().take(256).collect()));
        }
    }
    if volume.persistent_volume_claim.is_some() {
        return Ok(claim::link(dirs, uid, &volume.name));
    }
    let plugin = plugin(volume).ok_or(Error::Unsupported)?;
    Ok(dirs.volume(uid, plugin, &volume.name))
}

/// Where the volume is on the node, where it is not simply a part of the node.
pub(crate) fn own_place(dirs: &Dirs, pod: &Pod, volume: &Volume) -> Option<PathBuf> {
    place(dirs, pod, volume).ok().filter(|_| volume.host_path.is_none())
}

fn plugin(volume: &Volume) -> Option<&'static str> {
    let plugins = [
        (volume.empty_dir.is_some(), "empty-dir"),
        (volume.config_map.is_some(), "configmap"),
        (volume.secret.is_some(), "secret"),
        (volume.downward_api.is_some(), "downward-api"),
        (volume.projected.is_some(), "projected"),
    ];
    plugins.into_iter().find(|(is, _)| *is).map(|(_, plugin)| plugin)
}

/// Makes the file for a container's last words, and removes that of the last but one before it, which no status has.
pub(crate) fn make_termination_message_file(path: &Path, attempt: u32) -> Result<(), Error> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(Error::io(parent))?;
        if let Some(old) = attempt.checked_sub(2) {
            let _ = std::fs::remove_file(parent.join(old.to_string()));
        }
    }
    std::fs::write(path, "").map_err(Error::io(path))?;
    // The container may run as anyone.
    atomic::set_mode(path, 0o666)
}

/// Removes all that is of the pod on disk. Blocks on the disk.
pub(crate) fn tear_down(dirs: &Dirs, uid: &str) -> Result<(), Error> {
    mounted::remove(&dirs.pod(checked(uid)?))
}

/// Removes the pod's volumes, not its containers' last words. Blocks on the disk.
pub(crate) fn remove_volumes(dirs: &Dirs, uid: &str) -> Result<(), Error> {
    let uid = checked(uid)?;
    mounted::remove(&dirs.sub_paths(uid))?;
    mounted::remove(&dirs.volumes(uid))
}

fn checked(uid: &str) -> Result<&str, Error> {
    let escape = || Error::Escape(uid.chars().take(256).collect());
    component::is_component(uid).then_some(uid).ok_or_else(escape)
}

/// Removes a directory that may be gone already.
pub(crate) fn remove_all(path: &Path) -> Result<(), Error> {
    mounted::remove(path)
}
