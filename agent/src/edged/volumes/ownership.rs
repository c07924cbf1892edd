//! Gives a volume, with all that is in it, to the pod's group (`fsGroup`). Others may write there meanwhile: so each thing is
//! opened as itself, below what is open already, and no link is followed. Blocks on the disk.
//!
//! Source: Kubernetes, "Configure a Security Context for a Pod: volume permission and ownership change policy".

use std::{
    fs::{self, File, Permissions},
    os::{
        fd::AsRawFd,
        unix::fs::{MetadataExt, PermissionsExt, chown},
    },
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::Pod;
use nix::{
    fcntl::{OFlag, open, openat},
    sys::stat::Mode,
};

use super::error::Error;

/// To be looked at and given away, never read.
const ITSELF: OFlag = OFlag::O_PATH.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// Each level is a file open here.
const MAX_DEPTH: usize = 128;
/// What the group may do with a file …
const FILE: u32 = 0o660;
/// … and with a directory, in which everything new belongs to it as well.
const DIRECTORY: u32 = 0o2770;

/// `fsGroupChangePolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// Everything, each time.
    Always,
    /// Nothing, where the volume itself belongs to the group already.
    OnRootMismatch,
}

impl Policy {
    /// The pod's.
    pub(super) fn of(pod: &Pod) -> Self {
        let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
        match context.and_then(|context| context.fs_group_change_policy.as_deref()) {
            Some("OnRootMismatch") => Self::OnRootMismatch,
            _ => Self::Always,
        }
    }
}

/// Gives the volume to the group.
pub(super) fn give(root: &Path, group: u32, policy: Policy) -> Result<(), Error> {
    // the volume itself may stand behind a link of the node's administrator
    let root = fs::canonicalize(root).map_err(Error::io(root))?;
    let top = open(&root, ITSELF, Mode::empty()).map_err(|error| Error::io(&root)(error.into()))?;
    let top = File::from(top);
    let meta = top.metadata().map_err(Error::io(&root))?;
    if policy == Policy::OnRootMismatch && meta.gid() == group && meta.mode() & DIRECTORY == DIRECTORY {
        return Ok(());
    }
    below(&top, &root, group, 0)
}

fn below(at: &File, shown: &Path, group: u32, depth: usize) -> Result<(), Error> {
    let meta = at.metadata().map_err(Error::io(shown))?;
    if !meta.is_dir() && !meta.is_file() {
        return Ok(());
    }
    let itself = PathBuf::from(format!("/proc/self/fd/{}", at.as_raw_fd()));
    let more = if meta.is_dir() { DIRECTORY } else { FILE };
    // a program's own group is what its bits are about
    let more = if meta.mode() & 0o111 != 0 { more | 0o110 } else { more };
    if meta.gid() != group {
        chown(&itself, None, Some(group)).map_err(Error::io(shown))?;
    }
    if meta.gid() != group || meta.mode() & more != more {
        // after the owner: changing that takes bits away
        let mode = (meta.mode() & 0o7777) | more;
        fs::set_permissions(&itself, Permissions::from_mode(mode)).map_err(Error::io(shown))?;
    }
    if !meta.is_dir() {
        return Ok(());
    }
    if depth == MAX_DEPTH {
        return Err(Error::Deep(shown.to_owned()));
    }
    for entry in fs::read_dir(&itself).map_err(Error::io(shown))?.flatten() {
        let name = entry.file_name();
        // what has gone meanwhile needs no group
        let Ok(next) = openat(at, name.as_os_str(), ITSELF, Mode::empty()) else { continue };
        below(&File::from(next), &shown.join(&name), group, depth + 1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> (u32, u32) {
        let meta = fs::symlink_metadata(path).unwrap();
        (meta.gid(), meta.mode() & 0o7777)
    }

    #[test]
    fn a_volume_is_the_groups_and_what_links_lead_to_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("volume"), dir.path().join("outside"));
        fs::create_dir_all(root.join("sub")).unwrap();
        for file in [root.join("sub/file"), outside.clone()] {
            fs::write(&file, "x").unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        }
        symlink(&outside, root.join("link")).unwrap();
        let group = nix::unistd::getegid().as_raw();
        give(&root, group, Policy::Always).unwrap();
        assert_eq!(mode(&root.join("sub")), (group, 0o2775));
        assert_eq!(mode(&root.join("sub/file")), (group, 0o660));
        assert_eq!(mode(&outside), (group, 0o600));
        fs::set_permissions(root.join("sub/file"), Permissions::from_mode(0o600)).unwrap();
        give(&root, group, Policy::OnRootMismatch).unwrap();
        assert_eq!(mode(&root.join("sub/file")), (group, 0o600), "the volume itself is the group's already");
    }

    #[test]
    fn a_volume_without_a_bottom_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let deep: PathBuf = std::iter::repeat_n("d", MAX_DEPTH + 1).collect();
        fs::create_dir_all(dir.path().join(deep)).unwrap();
        let group = nix::unistd::getegid().as_raw();
        assert!(matches!(give(dir.path(), group, Policy::Always), Err(Error::Deep(_))));
    }
}
