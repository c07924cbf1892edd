//! Mounts sub-paths of volumes. Other containers may change the volume while the path is resolved: so links are resolved once,
//! then the real path is opened step by step without following links, and the open file is bind-mounted to a path that no
//! container can reach. The runtime is given that path. Blocks on the disk.

use std::{
    fs::File,
    io,
    os::fd::AsRawFd,
    path::{Component, Path, PathBuf},
};

use fs_err as fs;
use nix::{
    errno::Errno,
    fcntl::{OFlag, open, openat},
    mount::{MsFlags, mount},
    sys::stat::{Mode, fchmod, mkdirat},
};

use super::{error::Error, remove};
use crate::names;

/// Flags to open a step only to continue from it and to bind-mount it.
const STEP_FLAGS: OFlag = OFlag::O_PATH
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);
/// Mode of directories that are created on the way.
const DIR_MODE: u32 = 0o777;

/// Returns the path for the runtime of `sub` in the volume at `root`: bind-mounted to `target`, or the real path if mounting is
/// not permitted. A missing path is created as a directory. Links are followed, but never out of the volume. Later mounts of the
/// node are visible through it; mounts made through it are visible to the node only with `bidirectional`.
pub(super) fn bind(
    root: &Path,
    sub: &str,
    target: &Path,
    bidirectional: bool,
) -> Result<PathBuf, Error> {
    let (real, file) = open_resolved(root, sub)?;
    prepare(target, &file)?;
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    let nothing: Option<&str> = None;
    let bound = mount(
        Some(source.as_str()),
        target,
        nothing,
        MsFlags::MS_BIND,
        nothing,
    );
    let bound = bound.and_then(|()| match bidirectional {
        true => Ok(()),
        false => mount(nothing, target, nothing, MsFlags::MS_SLAVE, nothing),
    });
    match bound {
        Ok(()) => Ok(target.to_owned()),
        // Without privileges there are no containers of other users either.
        Err(Errno::EPERM) => Ok(real),
        Err(error) => Err(Error::at(target)(error)),
    }
}

/// Prepares the target of the bind mount, which may exist from a previous start.
fn prepare(target: &Path, file: &File) -> Result<(), Error> {
    let parent = target.parent().unwrap_or(target);
    fs::create_dir_all(parent)?;
    remove::unmount(target)?;
    let is_dir = file.metadata().map_err(Error::at(target))?.is_dir();
    let there = fs::symlink_metadata(target).ok();
    if there.as_ref().is_some_and(|meta| meta.is_dir() != is_dir) {
        let gone = if is_dir {
            fs::remove_file(target)
        } else {
            fs::remove_dir(target)
        };
        gone?;
    } else if there.is_some() {
        return Ok(());
    }
    let made = if is_dir {
        fs::create_dir(target)
    } else {
        fs::File::create_new(target).map(drop)
    };
    Ok(made?)
}

/// Resolves and opens the path; returns the real path and the open file.
fn open_resolved(root: &Path, sub: &str) -> Result<(PathBuf, File), Error> {
    let escape = || Error::path_escape(sub);
    if !names::is_below(Path::new(sub)) {
        return Err(escape());
    }
    let root = fs::canonicalize(root)?;
    let real = resolve(&root, Path::new(sub), &escape)?;
    let mut at = File::from(open(&root, STEP_FLAGS, Mode::empty()).map_err(Error::at(&root))?);
    for part in real
        .strip_prefix(&root)
        .unwrap_or(Path::new(""))
        .components()
    {
        let Component::Normal(name) = part else {
            continue;
        };
        let failed = Error::at(&real);
        let next = match openat(&at, name, STEP_FLAGS, Mode::empty()) {
            Err(Errno::ENOENT) => {
                match mkdirat(&at, name, Mode::from_bits_truncate(DIR_MODE)) {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(error) => return Err(failed(error)),
                }
                let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
                let made = openat(&at, name, flags, Mode::empty()).map_err(&failed)?;
                // whatever the process's umask
                fchmod(&made, Mode::from_bits_truncate(DIR_MODE)).map_err(&failed)?;
                made
            }
            other => other.map_err(failed)?,
        };
        at = File::from(next);
        // A link that was created meanwhile was opened as itself.
        if at.metadata().map_err(Error::at(&real))?.is_symlink() {
            return Err(escape());
        }
    }
    Ok((real, at))
}

/// Resolves links in `sub` as far as it exists; the rest is appended unchanged.
fn resolve(root: &Path, sub: &Path, escape: &dyn Fn() -> Error) -> Result<PathBuf, Error> {
    let mut at = root.to_owned();
    for part in sub.components() {
        let next = at.join(part);
        at = match fs::canonicalize(&next) {
            Ok(real) if real.starts_with(root) => real,
            Ok(_) => return Err(escape()),
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && fs::symlink_metadata(&next).is_err() =>
            {
                next
            }
            Err(error) => return Err(error.into()),
        };
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A link that is put in place of a directory after the path was followed leads nowhere.
    #[test]
    fn link_created_during_resolution_is_not_followed() {
        let (volume, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = fs::canonicalize(volume.path()).unwrap();
        fs::create_dir(root.join("a")).unwrap();
        fs::create_dir(other.path().join("b")).unwrap();
        let (_, file) = open_resolved(&root, "a").unwrap();
        fs::rename(root.join("a"), root.join("moved")).unwrap();
        symlink(other.path(), root.join("a")).unwrap();
        let held = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        assert_eq!(held, root.join("moved"), "what was opened stays what it is");
        assert!(matches!(
            open_resolved(&root, "a/b"),
            Err(Error::PathEscape(_))
        ));
    }

    /// While one changes a directory into a link and back, whoever opens it gets a part of the volume or an error.
    #[test]
    fn swapped_links_never_escape() {
        let (volume, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, other) = (
            fs::canonicalize(volume.path()).unwrap(),
            fs::canonicalize(other.path()).unwrap(),
        );
        let (dir, link) = (root.join("dir"), root.join("link"));
        fs::create_dir(&dir).unwrap();
        symlink(&other, &link).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    for (from, to) in [("dir", "x"), ("link", "x"), ("x", "link"), ("x", "dir")] {
                        let _ = fs::rename(root.join(from), root.join(to));
                    }
                }
            });
            for _ in 0..2000 {
                if let Ok((_, file)) = open_resolved(&root, "x") {
                    let held =
                        fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
                    assert!(held.starts_with(&root), "{held:?}");
                }
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    /// A part of a directory of the node, on which the node mounts a disk after the container has started.
    #[test]
    fn later_mounts_of_the_node_are_visible_and_kept() {
        let nothing: Option<&str> = None;
        let dir = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(dir.path()).unwrap();
        let (host, pod) = (dir.join("host"), dir.join("pod"));
        let (disk, target) = (host.join("data"), pod.join("volume-subpaths/v/c/0"));
        fs::create_dir(&host).unwrap();
        mount(
            Some("tmpfs"),
            &host,
            Some("tmpfs"),
            MsFlags::empty(),
            nothing,
        )
        .expect("these tests run as root");
        mount(nothing, &host, nothing, MsFlags::MS_SHARED, nothing).unwrap();
        fs::create_dir(&disk).unwrap();
        bind(&host, "data", &target, false).unwrap();
        mount(
            Some("tmpfs"),
            &disk,
            Some("tmpfs"),
            MsFlags::empty(),
            nothing,
        )
        .unwrap();
        fs::write(disk.join("kept"), "x").unwrap();
        let seen = fs::read_to_string(target.join("kept"));
        // the container starts anew, and then its pod goes
        let again = bind(&host, "data", &target, false);
        let kept = fs::read_to_string(disk.join("kept"));
        let removed = remove::remove(&pod);
        let kept_again = fs::read_to_string(disk.join("kept"));
        // what is shared both ways cannot be taken apart: it stays, and so does what the node has
        bind(&host, "data", &target, true).unwrap();
        mount(
            Some("tmpfs"),
            &disk,
            Some("tmpfs"),
            MsFlags::empty(),
            nothing,
        )
        .unwrap();
        fs::write(disk.join("over"), "x").unwrap();
        let refused = remove::remove(&pod);
        let over = disk.join("over").exists();
        for _ in 0..2 {
            let _ = nix::mount::umount2(&disk, nix::mount::MntFlags::MNT_DETACH);
        }
        let removed_then = remove::remove(&pod);
        let _ = nix::mount::umount2(&host, nix::mount::MntFlags::MNT_DETACH);
        assert_eq!(seen.unwrap(), "x");
        again.unwrap();
        assert_eq!(kept.unwrap(), "x", "after the container's start");
        removed.unwrap();
        assert_eq!(kept_again.unwrap(), "x", "after the pod's end");
        assert!(matches!(refused, Err(Error::Mounted { .. })), "{refused:?}");
        assert!(over, "it was unmounted on the node");
        removed_then.unwrap();
        assert!(!pod.exists());
    }
}
