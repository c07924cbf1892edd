//! A pod's volumes on disk, in the kubelet's layout: `<root>/pods/<uid>/volumes/kubernetes.io~<plugin>/<name>`.
//!
//! [`mod@payload`] builds the files of configMap, secret, downwardAPI and projected volumes, and [`atomic`] writes them.
//! [`mod@empty_dir`] creates empty directories, and [`memory`] mounts tmpfs. [`host_path`] checks paths of the node, and [`claim`]
//! finds the paths behind claims, whose group [`ownership`] sets. [`mounts`] and [`sub_path`] make the mounts of containers.
//! [`mod@remove`] removes directories without entering mounts.

mod atomic;
mod claim;
mod claim_error;
mod empty_dir;
mod error;
mod host_path;
mod memory;
mod mounts;
mod ownership;
mod payload;
mod remove;
mod set_up;
mod sub_path;
#[cfg(test)]
mod tests;
pub(crate) mod token;

use std::path::Path;

use fs_err as fs;

pub(crate) use self::{
    claim::{BackingPath, Claims, backing_path, volume_name},
    claim_error::ClaimError,
    error::Error,
    mounts::{MountInputs, may_be_recursive, of_container},
    payload::Tokens,
    remove::{remove, remove_volumes, tear_down},
    set_up::{Inputs, set_up, volume_path},
};

/// Creates the file for a container's termination message, and removes that of the container before the previous one, which no
/// status refers to.
pub(crate) fn make_termination_message_file(path: &Path, attempt: u32) -> Result<(), Error> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
        if let Some(old) = attempt.checked_sub(2) {
            let _ = fs::remove_file(parent.join(old.to_string()));
        }
    }
    fs::write(path, "")?;
    // The container may run as any user.
    atomic::set_mode(path, 0o666)
}
