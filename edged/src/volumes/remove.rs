//! Removes directories of deleted pods, but nothing that is mounted in them: a pod with mount propagation, a volume in memory, a
//! sub-path or an administrator may have mounted the node's own directories there. Mounts are unmounted first. If one cannot be
//! unmounted, the whole directory stays and an error is returned. Blocks on the disk.

use std::{
    ffi::OsString,
    io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use fs_err as fs;
use nix::{
    errno::Errno,
    mount::{MntFlags, MsFlags, mount, umount2},
};

use wire::names::is_path_component;

use super::error::Error;
use crate::names::Dirs;

/// The mounts of this mount namespace, the newest last.
const MOUNTINFO: &str = "/proc/self/mountinfo";
/// Index of the field with the mount point in a line …
const MOUNT_POINT_FIELD: usize = 4;
/// … and of the first optional field, which says how the mount is shared; they end with a dash (proc_pid_mountinfo(5)).
const OPTIONAL_FIELDS: usize = 6;

/// Removes a directory, if it exists.
///
/// # Errors
/// An operation on the disk failed, or something in the directory stays mounted; then nothing is removed.
pub(crate) fn remove(directory: &Path) -> Result<(), Error> {
    remove_with(directory, detach)
}

/// Removes the pod's directory. Blocks on the disk.
pub(crate) fn tear_down(dirs: &Dirs, uid: &str) -> Result<(), Error> {
    remove(&dirs.pod(check_uid(uid)?))
}

/// Removes the pod's volumes, but not termination messages. Blocks on the disk.
pub(crate) fn remove_volumes(dirs: &Dirs, uid: &str) -> Result<(), Error> {
    let uid = check_uid(uid)?;
    remove(&dirs.sub_paths(uid))?;
    remove(&dirs.volumes(uid))
}

fn check_uid(uid: &str) -> Result<&str, Error> {
    if is_path_component(uid) {
        Ok(uid)
    } else {
        Err(Error::path_escape(uid))
    }
}

fn remove_with(directory: &Path, unmount: impl Fn(&Path) -> nix::Result<()>) -> Result<(), Error> {
    if fs::symlink_metadata(directory).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(());
    }
    unmount_all(directory, unmount)?;
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Unmounts everything at the directory and below it, the newest mount first.
fn unmount_all(directory: &Path, unmount: impl Fn(&Path) -> nix::Result<()>) -> Result<(), Error> {
    // The kernel lists canonical paths. The last component may be a link, which is then removed as such.
    let real = match (
        directory.parent().map(fs::canonicalize),
        directory.file_name(),
    ) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        (Some(Err(error)), _) => return Err(error.into()),
        _ => directory.to_owned(),
    };
    let all = mounts(&real)?;
    if all.is_empty() {
        // reading the list again would be expensive: the kernel writes a line for each mount of the machine
        return Ok(());
    }
    for Mount { point, .. } in &all {
        make_private(point).map_err(|error| Error::Mounted {
            path: point.clone(),
            source: error.into(),
        })?;
    }
    // A path resolves to the newest mount. A mount below that may still be shared: unmounting something in it would unmount it on
    // the node too.
    let all = mounts(&real)?;
    if let Some(below) = all
        .iter()
        .find(|below| below.shared && all.iter().any(|top| top.parent == below.id))
    {
        let source = io::Error::other(
            "the node shares what is mounted there, and has mounted something over it since",
        );
        return Err(Error::Mounted {
            path: below.point.clone(),
            source,
        });
    }
    for Mount { point, .. } in all.into_iter().rev() {
        match unmount(&point) {
            // It is gone, or was hidden by another mount that is gone now.
            Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => {}
            Err(error) => {
                return Err(Error::Mounted {
                    path: point,
                    source: error.into(),
                });
            }
        }
    }
    match mounts(&real)?.into_iter().next() {
        Some(Mount { point, .. }) => Err(Error::Mounted {
            path: point,
            source: io::ErrorKind::ResourceBusy.into(),
        }),
        None => Ok(()),
    }
}

/// Unmounts everything at the directory and below it.
///
/// # Errors
/// Something stays mounted.
pub(super) fn unmount(directory: &Path) -> Result<(), Error> {
    unmount_all(directory, detach)
}

fn detach(point: &Path) -> nix::Result<()> {
    umount2(point, MntFlags::MNT_DETACH.union(MntFlags::UMOUNT_NOFOLLOW))
}

/// Makes a mount and all mounts in it private. A bind mount of a path that the node shares shows later mounts of the node, and
/// unmounting one of them here would unmount it there as well.
fn make_private(point: &Path) -> nix::Result<()> {
    let nothing: Option<&str> = None;
    match mount(
        nothing,
        point,
        nothing,
        MsFlags::MS_PRIVATE.union(MsFlags::MS_REC),
        nothing,
    ) {
        // it is no mount, or is gone
        Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A mount, as listed by the kernel.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    id: Vec<u8>,
    /// Id of the parent mount.
    parent: Vec<u8>,
    point: PathBuf,
    /// Whether mounts in it are shared with other namespaces.
    shared: bool,
}

/// Returns the mounts at the directory or below, the newest last.
fn mounts(directory: &Path) -> Result<Vec<Mount>, Error> {
    // Paths are bytes.
    let text = fs::read(MOUNTINFO)?;
    Ok(parse(&text)
        .filter(|mount| mount.point.starts_with(directory))
        .collect())
}

fn parse(text: &[u8]) -> impl Iterator<Item = Mount> {
    text.split(|byte| *byte == b'\n').filter_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let mut optional_fields = fields
            .iter()
            .skip(OPTIONAL_FIELDS)
            .take_while(|word| **word != b"-");
        Some(Mount {
            id: fields.first()?.to_vec(),
            parent: fields.get(1)?.to_vec(),
            point: PathBuf::from(OsString::from_vec(unescape(fields.get(MOUNT_POINT_FIELD)?))),
            shared: optional_fields.any(|word| word.starts_with(b"shared:")),
        })
    })
}

/// Decodes `\` with three octal digits, as which the kernel writes spaces, tabs, line ends and backslashes.
fn unescape(escaped: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some((byte, after)) = rest.split_first() {
        let octal = after
            .get(..3)
            .filter(|digits| digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        let value = octal.map(|digits| {
            digits
                .iter()
                .fold(0_u32, |sum, digit| sum * 8 + u32::from(digit - b'0'))
        });
        match value
            .and_then(|value| u8::try_from(value).ok())
            .filter(|_| *byte == b'\\')
        {
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
    fn escaped_mount_points_are_decoded() {
        let text = b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 0:5 / /a\\040b\\134c rw,relatime shared:3 - tmpfs t rw\n\
            24 22 0:6 / /x\\9\\777 rw - tmpfs t rw\nshort line\n";
        let found: Vec<Mount> = parse(text).collect();
        let points: Vec<&Path> = found.iter().map(|mount| mount.point.as_path()).collect();
        assert_eq!(
            points,
            [
                Path::new("/"),
                Path::new("/a b\\c"),
                Path::new("/x\\9\\777")
            ]
        );
        assert_eq!(
            found.iter().map(|mount| mount.shared).collect::<Vec<_>>(),
            [false, true, false]
        );
        assert_eq!(
            (found[1].id.as_slice(), found[1].parent.as_slice()),
            (&b"23"[..], &b"22"[..])
        );
    }

    /// A place of the test's own, in which nothing is shared with the machine but what the test shares; ends with it.
    struct Own(tempfile::TempDir);

    impl Own {
        fn new() -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            bind(place.path(), place.path());
            make_private(place.path()).unwrap();
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
    fn shared_mounts_of_the_node_stay_mounted() {
        let place = Own::new();
        let (host, volume) = (place.path().join("host"), place.path().join("pod/volume"));
        for directory in [&host, &volume] {
            fs::create_dir_all(directory).unwrap();
        }
        let nothing: Option<&str> = None;
        mount(
            Some("tmpfs"),
            &host,
            Some("tmpfs"),
            MsFlags::empty(),
            nothing,
        )
        .unwrap();
        mount(nothing, &host, nothing, MsFlags::MS_SHARED, nothing).unwrap();
        bind(&host, &volume);
        let disk = host.join("disk");
        fs::create_dir(&disk).unwrap();
        mount(
            Some("tmpfs"),
            &disk,
            Some("tmpfs"),
            MsFlags::empty(),
            nothing,
        )
        .unwrap();
        fs::write(disk.join("kept"), "x").unwrap();
        assert!(
            volume.join("disk/kept").exists(),
            "it shows in the pod, too"
        );
        remove(&place.path().join("pod")).unwrap();
        assert_eq!(fs::read_to_string(disk.join("kept")).unwrap(), "x");
    }

    #[test]
    fn mounted_directories_are_not_removed() {
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
        mount(
            Some("tmpfs"),
            &inside.join("deeper"),
            Some("tmpfs"),
            MsFlags::empty(),
            None::<&str>,
        )
        .unwrap();
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
    fn link_is_removed_without_its_target() {
        let place = tempfile::tempdir().unwrap();
        let (outside, link) = (place.path().join("outside"), place.path().join("link"));
        fs::create_dir(&outside).unwrap();
        bind(&outside, &outside);
        symlink(&outside, &link).unwrap();
        remove(&link).unwrap();
        let mounted = mounts(&fs::canonicalize(&outside).unwrap()).unwrap().len();
        umount2(&outside, MntFlags::MNT_DETACH).unwrap();
        assert!(
            fs::symlink_metadata(&link).is_err() && mounted == 1,
            "{mounted}"
        );
    }

    #[test]
    fn directory_with_a_stuck_mount_stays() {
        let place = tempfile::tempdir().unwrap();
        let (outside, pod) = (place.path().join("outside"), place.path().join("pod"));
        fs::create_dir_all(pod.join("volume")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "x").unwrap();
        bind(&outside, &pod.join("volume"));
        for (refusal, expected) in [
            (Err(Errno::EPERM), "ermitted"),
            (Ok(()), "busy"),
            (Err(Errno::EINVAL), "busy"),
        ] {
            let error = remove_with(&pod, |_| refusal).unwrap_err();
            let Error::Mounted { path, source } = &error else {
                panic!("{error:?}")
            };
            assert!(
                path.ends_with("pod/volume") && source.to_string().contains(expected),
                "{error:?}"
            );
            assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "x");
        }
        remove(&pod).unwrap();
        assert!(outside.join("kept").exists() && !pod.exists());
    }
}
