//! A part of a volume as a mount of its own. What is in a volume is other containers' work, which may go on while the path is
//! followed: so it is followed once, link by link, then opened step by step without following anything, and what is open is
//! bound to a place that no container can reach. The runtime is given that place. Blocks on the disk.

use std::{
    fs::{self, File},
    io,
    os::fd::AsRawFd,
    path::{Component, Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open, openat},
    mount::{MsFlags, mount},
    sys::stat::{Mode, fchmod, mkdirat},
};

use super::{error::Error, mounted};
use crate::edged::names;

/// The only thing done with what is opened is to go on from it, and to bind it.
const STEP: OFlag = OFlag::O_PATH.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// Of directories that are made on the way.
const DIR_MODE: u32 = 0o777;

/// `sub`, below the volume at `root`, as a path for the runtime: bound to `place`, or, where nothing may be mounted, as what
/// it is. Made as a directory when it is not there. Links are followed, but never out of the volume. What the node mounts there later is
/// seen through it; only where it is to be shared `both_ways` the node sees what is mounted, and unmounted, through it.
pub(super) fn bind(root: &Path, sub: &str, place: &Path, both_ways: bool) -> Result<PathBuf, Error> {
    let (real, file) = opened(root, sub)?;
    prepare(place, &file)?;
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    let nothing: Option<&str> = None;
    let bound = mount(Some(source.as_str()), place, nothing, MsFlags::MS_BIND, nothing);
    let bound = bound.and_then(|()| match both_ways {
        true => Ok(()),
        false => mount(nothing, place, nothing, MsFlags::MS_SLAVE, nothing),
    });
    match bound {
        Ok(()) => Ok(place.to_owned()),
        // Without privileges there are no containers with others' processes either.
        Err(Errno::EPERM) => Ok(real),
        Err(error) => Err(Error::io(place)(error.into())),
    }
}

/// The place of a former start of the container is taken again.
fn prepare(place: &Path, file: &File) -> Result<(), Error> {
    let parent = place.parent().unwrap_or(place);
    fs::create_dir_all(parent).map_err(Error::io(parent))?;
    mounted::unmount(place)?;
    let is_dir = file.metadata().map_err(Error::io(place))?.is_dir();
    let there = fs::symlink_metadata(place).ok();
    if there.as_ref().is_some_and(|meta| meta.is_dir() != is_dir) {
        let gone = if is_dir { fs::remove_file(place) } else { fs::remove_dir(place) };
        gone.map_err(Error::io(place))?;
    } else if there.is_some() {
        return Ok(());
    }
    let made = if is_dir { fs::create_dir(place) } else { File::create_new(place).map(drop) };
    made.map_err(Error::io(place))
}

/// The real path, and the same opened.
fn opened(root: &Path, sub: &str) -> Result<(PathBuf, File), Error> {
    let escape = || Error::Escape(sub.chars().take(256).collect());
    if !names::is_below(Path::new(sub)) {
        return Err(escape());
    }
    let root = fs::canonicalize(root).map_err(Error::io(root))?;
    let real = resolved(&root, Path::new(sub), &escape)?;
    let mut at =
        File::from(open(&root, STEP, Mode::empty()).map_err(|error| Error::io(&root)(error.into()))?);
    for part in real.strip_prefix(&root).unwrap_or(Path::new("")).components() {
        let Component::Normal(name) = part else { continue };
        let failed = |error: Errno| Error::io(&real)(error.into());
        let next = match openat(&at, name, STEP, Mode::empty()) {
            Err(Errno::ENOENT) => {
                match mkdirat(&at, name, Mode::from_bits_truncate(DIR_MODE)) {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(error) => return Err(failed(error)),
                }
                let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
                let made = openat(&at, name, flags, Mode::empty()).map_err(failed)?;
                // whatever the process's umask
                fchmod(&made, Mode::from_bits_truncate(DIR_MODE)).map_err(failed)?;
                made
            }
            other => other.map_err(failed)?,
        };
        at = File::from(next);
        // A link that has come in between was opened as itself.
        if at.metadata().map_err(Error::io(&real))?.is_symlink() {
            return Err(escape());
        }
    }
    Ok((real, at))
}

/// `sub` without links, as far as it exists; the rest is as it stands.
fn resolved(root: &Path, sub: &Path, escape: &dyn Fn() -> Error) -> Result<PathBuf, Error> {
    let mut at = root.to_owned();
    for part in sub.components() {
        let next = at.join(part);
        at = match fs::canonicalize(&next) {
            Ok(real) if real.starts_with(root) => real,
            Ok(_) => return Err(escape()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(&next).is_err() => {
                next
            }
            Err(error) => return Err(Error::io(next)(error)),
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
    fn a_link_that_comes_in_between_is_not_followed() {
        let (volume, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = fs::canonicalize(volume.path()).unwrap();
        fs::create_dir(root.join("a")).unwrap();
        fs::create_dir(other.path().join("b")).unwrap();
        let (_, file) = opened(&root, "a").unwrap();
        fs::rename(root.join("a"), root.join("moved")).unwrap();
        symlink(other.path(), root.join("a")).unwrap();
        let held = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        assert_eq!(held, root.join("moved"), "what was opened stays what it is");
        assert!(matches!(opened(&root, "a/b"), Err(Error::Escape(_))));
    }

    /// While one changes a directory into a link and back, whoever opens it gets a part of the volume or an error.
    #[test]
    fn a_race_is_never_lost() {
        let (volume, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, other) =
            (fs::canonicalize(volume.path()).unwrap(), fs::canonicalize(other.path()).unwrap());
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
                if let Ok((_, file)) = opened(&root, "x") {
                    let held = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
                    assert!(held.starts_with(&root), "{held:?}");
                }
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    /// A part of a directory of the node, on which the node mounts a disk after the container has started.
    #[test]
    fn what_the_node_mounts_there_later_is_seen_and_stays_the_nodes() {
        let nothing: Option<&str> = None;
        let dir = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(dir.path()).unwrap();
        let (host, pod) = (dir.join("host"), dir.join("pod"));
        let (disk, place) = (host.join("data"), pod.join("volume-subpaths/v/c/0"));
        fs::create_dir(&host).unwrap();
        mount(Some("tmpfs"), &host, Some("tmpfs"), MsFlags::empty(), nothing)
            .expect("these tests run as root");
        mount(nothing, &host, nothing, MsFlags::MS_SHARED, nothing).unwrap();
        fs::create_dir(&disk).unwrap();
        bind(&host, "data", &place, false).unwrap();
        mount(Some("tmpfs"), &disk, Some("tmpfs"), MsFlags::empty(), nothing).unwrap();
        fs::write(disk.join("kept"), "x").unwrap();
        let seen = fs::read_to_string(place.join("kept"));
        // the container starts anew, and then its pod goes
        let again = bind(&host, "data", &place, false);
        let kept = fs::read_to_string(disk.join("kept"));
        let removed = mounted::remove(&pod);
        let kept_again = fs::read_to_string(disk.join("kept"));
        // what is shared both ways cannot be taken apart: it stays, and so does what the node has
        bind(&host, "data", &place, true).unwrap();
        mount(Some("tmpfs"), &disk, Some("tmpfs"), MsFlags::empty(), nothing).unwrap();
        fs::write(disk.join("over"), "x").unwrap();
        let refused = mounted::remove(&pod);
        let over = disk.join("over").exists();
        for _ in 0..2 {
            let _ = nix::mount::umount2(&disk, nix::mount::MntFlags::MNT_DETACH);
        }
        let removed_then = mounted::remove(&pod);
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
