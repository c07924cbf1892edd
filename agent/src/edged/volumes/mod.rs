//! A pod's volumes on disk, in the kubelet's layout: `<root>/pods/<uid>/volumes/kubernetes.io~<plugin>/<name>`.
//!
//! [`mod@payload`] decides what is in the files of configMap, secret, downwardAPI and projected volumes, [`atomic`] writes them,
//! [`mod@empty_dir`] makes empty ones, [`memory`] keeps those off the disk that hold secrets, [`host`] looks at the node's own paths, [`claim`] at the volumes behind claims, which [`ownership`] gives to the pod's group;
//! [`mounts`] puts it all into containers, of which [`sub_path`] may see a part only; [`mounted`] takes it away again.

mod atomic;
mod claim;
mod claim_error;
mod empty_dir;
mod error;
mod host;
mod memory;
mod mounted;
mod mounts;
mod ownership;
mod payload;
mod place;
mod set_up;
mod sub_path;
#[cfg(test)]
mod tests;
pub(crate) mod token;

use std::path::Path;

pub(crate) use self::{
    claim::{Backing, Claims, backing, volume_name},
    claim_error::ClaimError,
    error::Error,
    mounts::{Places, may_be_recursive, of_container},
    payload::Tokens,
    place::of as place_of,
    set_up::{Inputs, set_up},
};
use super::names::Dirs;
use crate::component;

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
