//! Volumes in memory, whose content never reaches a disk and is lost at a power cut. Needs root.
//!
//! Source: <https://kubernetes.io/docs/concepts/configuration/secret/#information-security-for-secrets>.

use std::{fs, io::ErrorKind, os::unix::fs::MetadataExt, path::Path};

use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
};

use super::{atomic, error::Error};

/// Mount option that excludes the volume from swap. Kernels before 6.3 do not support it.
const NO_SWAP: &str = "noswap";

/// Mounts a tmpfs at `dir` if there is none, for example after a reboot. If the directory already contains files, they are in use
/// and it stays on disk. `bytes` is the size limit; `None` means half of the machine's memory.
pub(super) fn ensure_tmpfs(
    dir: &Path,
    mode: u32,
    group: Option<u32>,
    bytes: Option<i64>,
) -> Result<(), Error> {
    if is_mounted(dir)? || has_content(dir)? {
        return Ok(());
    }
    let mut options = match group {
        Some(group) => format!("mode={:o},gid={group}", atomic::SET_GID | mode),
        None => format!("mode={mode:o}"),
    };
    if let Some(bytes) = bytes {
        options += &format!(",size={bytes}");
    }
    let mounted = match mount_tmpfs(dir, &format!("{options},{NO_SWAP}")) {
        Err(Errno::EINVAL) => mount_tmpfs(dir, &options),
        mounted => mounted,
    };
    match mounted {
        // without root, a volume on disk is better than a pod that does not run
        Err(Errno::EPERM) => {
            tracing::warn!(path = %dir.display(), "no tmpfs for a volume in memory, which needs root: it is on disk");
            Ok(())
        }
        mounted => mounted.map_err(|error| Error::io(dir)(error.into())),
    }
}

fn mount_tmpfs(dir: &Path, options: &str) -> nix::Result<()> {
    mount(Some("tmpfs"), dir, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some(options))
}

/// Reports whether something is mounted at `dir`.
pub(super) fn is_mounted(dir: &Path) -> Result<bool, Error> {
    let device = |path: &Path| fs::metadata(path).map(|meta| meta.dev()).map_err(Error::io(path));
    Ok(device(dir)? != device(dir.parent().unwrap_or(dir))?)
}

/// Reports whether the directory has content, which a mount would hide.
pub(super) fn has_content(dir: &Path) -> Result<bool, Error> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io(dir)(error)),
    }
}
