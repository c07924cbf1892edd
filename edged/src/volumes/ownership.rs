//! Sets the group of a volume and everything in it to the pod's `fsGroup`. Others may write there meanwhile, so each entry is
//! opened relative to its open parent, without following links. Blocks on the disk.
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

/// Flags to open an entry only to inspect and change it, not to read it.
const OPEN_FLAGS: OFlag = OFlag::O_PATH
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);
/// Maximum depth; each level needs an open file.
const MAX_DEPTH: usize = 128;
/// Permission bits that are added to files …
const FILE_BITS: u32 = 0o660;
/// … and to directories, including the set-group-id bit.
const DIR_BITS: u32 = 0o2770;

/// `fsGroupChangePolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FsGroupChangePolicy {
    /// The group is always applied to everything.
    Always,
    /// Nothing is changed if the volume's root already has the group.
    OnRootMismatch,
}

impl FsGroupChangePolicy {
    /// Returns the pod's policy.
    pub(super) fn of(pod: &Pod) -> Self {
        let context = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.security_context.as_ref());
        match context.and_then(|context| context.fs_group_change_policy.as_deref()) {
            Some("OnRootMismatch") => Self::OnRootMismatch,
            _ => Self::Always,
        }
    }
}

/// Applies the group to the volume.
pub(super) fn apply(root: &Path, group: u32, policy: FsGroupChangePolicy) -> Result<(), Error> {
    // the node's administrator may have put a link to the volume
    let root = fs::canonicalize(root).map_err(Error::at(root))?;
    let top = File::from(open(&root, OPEN_FLAGS, Mode::empty()).map_err(Error::at(&root))?);
    let meta = top.metadata().map_err(Error::at(&root))?;
    if policy == FsGroupChangePolicy::OnRootMismatch
        && meta.gid() == group
        && meta.mode() & DIR_BITS == DIR_BITS
    {
        return Ok(());
    }
    apply_below(&top, &root, group, 0)
}

fn apply_below(at: &File, path: &Path, group: u32, depth: usize) -> Result<(), Error> {
    let meta = at.metadata().map_err(Error::at(path))?;
    if !meta.is_dir() && !meta.is_file() {
        return Ok(());
    }
    let itself = PathBuf::from(format!("/proc/self/fd/{}", at.as_raw_fd()));
    let bits = if meta.is_dir() { DIR_BITS } else { FILE_BITS };
    // executable files are executable for the group as well
    let bits = if meta.mode() & 0o111 != 0 {
        bits | 0o110
    } else {
        bits
    };
    if meta.gid() != group {
        chown(&itself, None, Some(group)).map_err(Error::at(path))?;
    }
    if meta.gid() != group || meta.mode() & bits != bits {
        // after the owner, because changing that clears bits
        let mode = (meta.mode() & 0o7777) | bits;
        fs::set_permissions(&itself, Permissions::from_mode(mode)).map_err(Error::at(path))?;
    }
    if !meta.is_dir() {
        return Ok(());
    }
    if depth == MAX_DEPTH {
        return Err(Error::TooDeep(path.to_owned()));
    }
    for entry in fs::read_dir(&itself).map_err(Error::at(path))?.flatten() {
        let name = entry.file_name();
        // an entry that is gone needs no group
        let Ok(next) = openat(at, name.as_os_str(), OPEN_FLAGS, Mode::empty()) else {
            continue;
        };
        apply_below(&File::from(next), &path.join(&name), group, depth + 1)?;
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
    fn group_is_applied_without_following_links() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("volume"), dir.path().join("outside"));
        fs::create_dir_all(root.join("sub")).unwrap();
        for file in [root.join("sub/file"), outside.clone()] {
            fs::write(&file, "x").unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        }
        symlink(&outside, root.join("link")).unwrap();
        let group = nix::unistd::getegid().as_raw();
        apply(&root, group, FsGroupChangePolicy::Always).unwrap();
        assert_eq!(mode(&root.join("sub")), (group, 0o2775));
        assert_eq!(mode(&root.join("sub/file")), (group, 0o660));
        assert_eq!(mode(&outside), (group, 0o600));
        fs::set_permissions(root.join("sub/file"), Permissions::from_mode(0o600)).unwrap();
        apply(&root, group, FsGroupChangePolicy::OnRootMismatch).unwrap();
        assert_eq!(
            mode(&root.join("sub/file")),
            (group, 0o600),
            "the volume itself is the group's already"
        );
    }

    #[test]
    fn too_deep_volume_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let deep: PathBuf = std::iter::repeat_n("d", MAX_DEPTH + 1).collect();
        fs::create_dir_all(dir.path().join(deep)).unwrap();
        let group = nix::unistd::getegid().as_raw();
        assert!(matches!(
            apply(dir.path(), group, FsGroupChangePolicy::Always),
            Err(Error::TooDeep(_))
        ));
    }
}
