//! Removes directories of pods that are gone, and nothing of what is mounted in them: a pod with mount propagation, a volume in
//! memory, a part of a volume, or somebody by hand may have mounted the node's own directories there. What is mounted is unmounted
//! first; what cannot be unmounted stays with all that is around it, and is told. Blocks on the disk.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    mount::{MntFlags, MsFlags, mount, umount2},
};

use super::error::Error;

/// What this program sees mounted, the newest last.
const MOUNTS: &str = "/proc/self/mountinfo";
/// Which of a line's words says where …
const POINT: usize = 4;
/// … and from which on there are words about who shares it, up to one that is a dash (proc_pid_mountinfo(5)).
const SHARED: usize = 6;

/// Removes a directory that may be gone already.
///
/// # Errors
/// The disk refuses, or something stays mounted in it: then nothing of it is removed.
pub(super) fn remove(directory: &Path) -> Result<(), Error> {
    remove_with(directory, detach)
}

fn remove_with(directory: &Path, unmount: impl Fn(&Path) -> nix::Result<()>) -> Result<(), Error> {
    if fs::symlink_metadata(directory).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(());
    }
    release(directory, unmount)?;
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(directory)(error)),
        _ => Ok(()),
    }
}

/// Unmounts everything at the directory and below it, what was mounted last first.
fn release(directory: &Path, unmount: impl Fn(&Path) -> nix::Result<()>) -> Result<(), Error> {
    // The kernel knows places by their real names; the last part may be a link, and is then removed as one.
    let real = match (directory.parent().map(fs::canonicalize), directory.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        (Some(Err(error)), _) => return Err(Error::io(directory)(error)),
        _ => directory.to_owned(),
    };
    let all = mounts(&real)?;
    if all.is_empty() {
        // the kernel writes the list anew for each who reads it: a line for each mount of the machine
        return Ok(());
    }
    for Mount { point, .. } in &all {
        set_apart(point).map_err(|error| Error::Mounted { path: point.clone(), source: error.into() })?;
    }
    // A path leads to what was mounted last. What is below that is shared still, if it was: whatever is unmounted from it is unmounted
    // where the node has it, too.
    let all = mounts(&real)?;
    if let Some(below) = all.iter().find(|below| below.shared && all.iter().any(|top| top.parent == below.id))
    {
        let source = io::Error::other(
            "the node shares what is mounted there, and has mounted something over it since",
        );
        return Err(Error::Mounted { path: below.point.clone(), source });
    }
    for Mount { point, .. } in all.into_iter().rev() {
        match unmount(&point) {
            // Gone meanwhile, or hidden below another one that is gone now.
            Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => {}
            Err(error) => return Err(Error::Mounted { path: point, source: error.into() }),
        }
    }
    match mounts(&real)?.into_iter().next() {
        Some(Mount { point, .. }) => {
            Err(Error::Mounted { path: point, source: io::ErrorKind::ResourceBusy.into() })
        }
        None => Ok(()),
    }
}

/// Unmounts everything at the directory and below it.
///
/// # Errors
/// Something stays mounted.
pub(super) fn unmount(directory: &Path) -> Result<(), Error> {
    release(directory, detach)
}

fn detach(point: &Path) -> nix::Result<()> {
    umount2(point, MntFlags::MNT_DETACH.union(MntFlags::UMOUNT_NOFOLLOW))
}

/// Has a mount, and all that is mounted in it, no longer share what is mounted and unmounted in it with others: a bind of a place
/// that the node shares shows what the node mounts there later, and to unmount that here would unmount it there, too.
fn set_apart(point: &Path) -> nix::Result<()> {
    let nothing: Option<&str> = None;
    match mount(nothing, point, nothing, MsFlags::MS_PRIVATE.union(MsFlags::MS_REC), nothing) {
        // no mount, or gone meanwhile
        Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => Ok(()),
        Err(error) => Err(error),
    }
}

/// One line of the list.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    id: Vec<u8>,
    /// The mount that it stands on.
    parent: Vec<u8>,
    point: PathBuf,
    /// Whether what is mounted and unmounted in it is so for others, too.
    shared: bool,
}

/// What is mounted at the directory or below, the newest last.
fn mounts(directory: &Path) -> Result<Vec<Mount>, Error> {
    // Names of places are bytes.
    let text = fs::read(MOUNTS).map_err(Error::io(MOUNTS))?;
    Ok(parse(&text).filter(|mount| mount.point.starts_with(directory)).collect())
}

fn parse(text: &[u8]) -> impl Iterator<Item = Mount> {
    text.split(|byte| *byte == b'\n').filter_map(|line| {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let mut told = words.iter().skip(SHARED).take_while(|word| **word != b"-");
        Some(Mount {
            id: words.first()?.to_vec(),
            parent: words.get(1)?.to_vec(),
            point: PathBuf::from(OsString::from_vec(plain(words.get(POINT)?))),
            shared: told.any(|word| word.starts_with(b"shared:")),
        })
    })
}

/// Spaces, tabs, line ends and backslashes are written as `\` and three octal digits.
fn plain(escaped: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some((byte, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|digits| digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        let value =
            octal.map(|digits| digits.iter().fold(0_u32, |sum, digit| sum * 8 + u32::from(digit - b'0')));
        match value.and_then(|value| u8::try_from(value).ok()).filter(|_| *byte == b'\\') {
            Some(value) => {
                plain.push(value);
                rest = &after[3..];
            }
            None => {
                plain.push(*byte);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn bind(from: &Path, to: &Path) {
        let nothing: Option<&str> = None;
        mount(Some(from), to, nothing, MsFlags::MS_BIND, nothing).expect("these tests run as root");
    }

    #[test]
    fn places_are_read_as_the_kernel_writes_them() {
        let text = b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 0:5 / /a\\040b\\134c rw,relatime shared:3 - tmpfs t rw\n\
            24 22 0:6 / /x\\9\\777 rw - tmpfs t rw\nshort line\n";
        let found: Vec<Mount> = parse(text).collect();
        let points: Vec<&Path> = found.iter().map(|mount| mount.point.as_path()).collect();
        assert_eq!(points, [Path::new("/"), Path::new("/a b\\c"), Path::new("/x\\9\\777")]);
        assert_eq!(found.iter().map(|mount| mount.shared).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!((found[1].id.as_slice(), found[1].parent.as_slice()), (&b"23"[..], &b"22"[..]));
    }

    /// A place of the test's own, in which nothing is shared with the machine but what the test shares; ends with it.
    struct Own(tempfile::TempDir);

    impl Own {
        fn new() -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            bind(place.path(), place.path());
            set_apart(place.path()).unwrap();
            place
        }

        fn path(&self) -> &Path {
            self.0.path()
        }
    }

    impl Drop for Own {
        fn drop(&mut self) {
            let _ = umount2(self.0.path(), MntFlags::MNT_DETACH);
        }
    }

    #[test]
    fn what_the_node_mounts_in_a_place_that_it_shares_stays_mounted_there() {
        let place = Own::new();
        let (host, volume) = (place.path().join("host"), place.path().join("pod/volume"));
        for directory in [&host, &volume] {
            fs::create_dir_all(directory).unwrap();
        }
        let nothing: Option<&str> = None;
        mount(Some("tmpfs"), &host, Some("tmpfs"), MsFlags::empty(), nothing).unwrap();
        mount(nothing, &host, nothing, MsFlags::MS_SHARED, nothing).unwrap();
        bind(&host, &volume);
        let disk = host.join("disk");
        fs::create_dir(&disk).unwrap();
        mount(Some("tmpfs"), &disk, Some("tmpfs"), MsFlags::empty(), nothing).unwrap();
        fs::write(disk.join("kept"), "x").unwrap();
        assert!(volume.join("disk/kept").exists(), "it shows in the pod, too");
        remove(&place.path().join("pod")).unwrap();
        assert_eq!(fs::read_to_string(disk.join("kept")).unwrap(), "x");
    }

    #[test]
    fn what_is_mounted_in_a_directory_outlives_it() {
        let place = Own::new();
        let (outside, pod) = (place.path().join("outside"), place.path().join("pod"));
        let (inside, deeper) = (pod.join("a b/volume"), outside.join("deeper"));
        for directory in [&inside, &deeper] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::write(outside.join("kept"), "x").unwrap();
        // one on the same disk, one on top of it, one of another kind in it, and the file itself
        bind(&outside, &inside);
        bind(&outside, &inside);
        mount(Some("tmpfs"), &inside.join("deeper"), Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
        fs::write(pod.join("file"), "").unwrap();
        bind(&outside.join("kept"), &pod.join("file"));
        // by another name of the same place
        symlink(place.path(), place.path().join("link")).unwrap();
        remove(&place.path().join("link/pod")).unwrap();
        assert!(!pod.exists());
        assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "x");
        assert!(deeper.is_dir());
        remove(&pod).unwrap();
    }

    #[test]
    fn a_link_goes_and_what_it_leads_to_stays() {
        let place = tempfile::tempdir().unwrap();
        let (outside, link) = (place.path().join("outside"), place.path().join("link"));
        fs::create_dir(&outside).unwrap();
        bind(&outside, &outside);
        symlink(&outside, &link).unwrap();
        remove(&link).unwrap();
        let mounted = mounts(&fs::canonicalize(&outside).unwrap()).unwrap().len();
        umount2(&outside, MntFlags::MNT_DETACH).unwrap();
        assert!(fs::symlink_metadata(&link).is_err() && mounted == 1, "{mounted}");
    }

    #[test]
    fn what_cannot_be_unmounted_stays() {
        let place = tempfile::tempdir().unwrap();
        let (outside, pod) = (place.path().join("outside"), place.path().join("pod"));
        fs::create_dir_all(pod.join("volume")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "x").unwrap();
        bind(&outside, &pod.join("volume"));
        for (refusal, told) in
            [(Err(Errno::EPERM), "ermitted"), (Ok(()), "busy"), (Err(Errno::EINVAL), "busy")]
        {
            let error = remove_with(&pod, |_| refusal).unwrap_err();
            let Error::Mounted { path, source } = &error else { panic!("{error:?}") };
            assert!(path.ends_with("pod/volume") && source.to_string().contains(told), "{error:?}");
            assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "x");
        }
        remove(&pod).unwrap();
        assert!(outside.join("kept").exists() && !pod.exists());
    }
}
