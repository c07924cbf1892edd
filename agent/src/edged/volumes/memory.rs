//! Volumes in memory: what is in them is gone with the machine's power, and never on a disk. Needs root.
//!
//! Source: <https://kubernetes.io/docs/concepts/configuration/secret/#information-security-for-secrets>.

use std::{fs, io::ErrorKind, os::unix::fs::MetadataExt, path::Path};

use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
};

use super::{atomic, error::Error};

/// Nothing of it goes to swap. Kernels before 6.3 do not know the option.
const NO_SWAP: &str = "noswap";

/// Has a tmpfs at the directory `place`, also after the machine has ended, with which the last one went. Where there are files
/// already, they are in use, and stay where they are. `bytes`: how much it may hold; `None` for half of the machine's memory.
pub(super) fn provide(place: &Path, mode: u32, group: Option<u32>, bytes: Option<i64>) -> Result<(), Error> {
    if is_mounted(place)? || has_content(place)? {
        return Ok(());
    }
    let mut options = match group {
        Some(group) => format!("mode={:o},gid={group}", atomic::SET_GID | mode),
        None => format!("mode={mode:o}"),
    };
    if let Some(bytes) = bytes {
        options += &format!(",size={bytes}");
    }
    let mounted = match tmpfs(place, &format!("{options},{NO_SWAP}")) {
        Err(Errno::EINVAL) => tmpfs(place, &options),
        mounted => mounted,
    };
    match mounted {
        // without root there are no mounts, and pods that run are better than none
        Err(Errno::EPERM) => {
            tracing::warn!(path = %place.display(), "no tmpfs for a volume in memory, which needs root: it is on disk");
            Ok(())
        }
        mounted => mounted.map_err(|error| Error::io(place)(error.into())),
    }
}

fn tmpfs(place: &Path, options: &str) -> nix::Result<()> {
    mount(Some("tmpfs"), place, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some(options))
}

/// Whether something is mounted there.
pub(super) fn is_mounted(place: &Path) -> Result<bool, Error> {
    let device = |path: &Path| fs::metadata(path).map(|meta| meta.dev()).map_err(Error::io(path));
    Ok(device(place)? != device(place.parent().unwrap_or(place))?)
}

/// Whether it has been used without a mount: that would hide what is there.
pub(super) fn has_content(place: &Path) -> Result<bool, Error> {
    match fs::read_dir(place) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io(place)(error)),
    }
}
