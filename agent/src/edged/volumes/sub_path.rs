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
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::stat::{Mode, fchmod, mkdirat},
};

use super::{Error, mounted};
use crate::edged::names;

/// The only thing done with what is opened is to go on from it, and to bind it.
const STEP: OFlag = OFlag::O_PATH.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// Of directories that are made on the way.
const DIR_MODE: u32 = 0o777;

/// `sub`, below the volume at `root`, as a path for the runtime: bound to `place`, or, where nothing may be mounted, as what
/// it is. Made as a directory when it is not there. Links are followed, but never out of the volume.
pub(super) fn bind(root: &Path, sub: &str, place: &Path) -> Result<PathBuf, Error> {
    let (real, file) = opened(root, sub)?;
    prepare(place, &file)?;
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    let nothing: Option<&str> = None;
    match mount(Some(source.as_str()), place, nothing, MsFlags::MS_BIND, nothing) {
        Ok(()) => Ok(place.to_owned()),
        // Without privileges there are no containers with others' processes either.
        Err(Errno::EPERM) => Ok(real),
        Err(error) => Err(Error::io(place)(error.into())),
    }
}

fn unbind(place: &Path) {
    // Not mounted is the usual case.
    if mounted::set_apart(place).is_err() {
        return;
    }
    let _ = umount2(place, MntFlags::MNT_DETACH.union(MntFlags::UMOUNT_NOFOLLOW));
}

/// The place of a former start of the container is taken again.
fn prepare(place: &Path, file: &File) -> Result<(), Error> {
    unbind(place);
    let parent = place.parent().unwrap_or(place);
    fs::create_dir_all(parent).map_err(Error::io(parent))?;
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
}
