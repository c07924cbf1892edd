//! A container's files as its commands see them: a few directories that every image has, the mounts, and over both, in memory, what
//! was written. Nothing is written to the host except the termination message file of a container.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::MetadataExt,
    path::Path,
    sync::Arc,
};

use parking_lot::Mutex;
use wire::cri::Mount;

use super::{
    Shared, covering, locate, read,
    written::{MAX_WRITTEN, Node, Written, full},
};

/// The directories that every container has.
const DIRECTORIES: [&str; 13] = [
    "/", "/bin", "/dev", "/etc", "/home", "/opt", "/proc", "/root", "/run", "/tmp", "/usr",
    "/usr/bin", "/var",
];
/// The directories in which images have programs and data.
const IMAGE_DIRECTORIES: [&str; 8] = [
    "/app", "/bin", "/etc", "/lib", "/opt", "/sbin", "/srv", "/usr",
];
/// The length of the beginning of a provisioned volume's directory: `pvc-`, the uid of the claim and `_`.
const VOLUME_PREFIX: usize = "pvc-".len() + 36 + 1;
/// The permissions of a written file.
const FILE: u32 = 0o644;
/// The most bytes of a container's termination message, of which the node reads 4 KiB.
const MAX_LAST_WORDS: u64 = 16 * 1024;
/// The most names that are listed of a directory of the host.
const MAX_NAMES: usize = 4096;

/// The kind of file at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    /// A regular file, with its size in bytes.
    File(u64),
}

/// The files of one container. Paths are absolute and contain neither `.` nor `..`.
#[derive(Debug)]
pub(crate) struct Files {
    mounts: Vec<Mount>,
    hostname: String,
    /// What was written outside the mounts.
    own: Arc<Mutex<Written>>,
    /// What was written to each mount, by its path in the container: all containers that mount the same directory see it.
    mounted: BTreeMap<String, Arc<Mutex<Written>>>,
    /// The path in the container of the termination message file, which the node reads when the container has ended.
    last_words: String,
    /// Whether nothing can be written outside the mounts.
    is_root_read_only: bool,
}

/// The metadata of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Kind and permissions as in `stat(2)`.
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

impl Files {
    /// Creates the files of a container; `shared` holds what was written to directories of the host.
    pub(crate) fn new(
        mounts: Vec<Mount>,
        hostname: String,
        last_words: String,
        shared: &Shared,
    ) -> Self {
        let of = |mount: &Mount| (mount.container_path.clone(), shared.of(&mount.host_path));
        let mounted = mounts.iter().map(of).collect();
        let is_root_read_only = false;
        Self {
            mounts,
            hostname,
            own: Arc::default(),
            mounted,
            last_words,
            is_root_read_only,
        }
    }

    /// Makes everything outside the mounts read-only.
    pub(crate) fn with_read_only_root(mut self, is_read_only: bool) -> Self {
        self.is_root_read_only = is_read_only;
        self
    }

    /// Reports whether a path is where images have their programs and data, and no mount hides them.
    pub(crate) fn may_be_of_image(&self, path: &str) -> bool {
        let path = Path::new(path);
        covering(&self.mounts, path).is_none()
            && IMAGE_DIRECTORIES
                .iter()
                .any(|above| path.starts_with(above))
    }

    /// Reports whether nothing can be written at a path.
    fn is_read_only(&self, path: &str) -> bool {
        covering(&self.mounts, Path::new(path))
            .map_or(self.is_root_read_only, |mount| mount.readonly)
    }

    /// Returns where what is written at a path is kept, and under which name.
    pub(super) fn place(&self, path: &str) -> (&Mutex<Written>, String) {
        let found = covering(&self.mounts, Path::new(path));
        let found = found.and_then(|mount| {
            Some((
                &mount.container_path,
                self.mounted.get(&mount.container_path)?,
            ))
        });
        match found {
            Some((above, written)) => {
                let inside = Path::new(path).strip_prefix(above).unwrap_or(Path::new(""));
                (written, format!("/{}", inside.display()))
            }
            None => (&self.own, path.to_owned()),
        }
    }

    fn node(&self, path: &str) -> Option<Node> {
        let (written, name) = self.place(path);
        written.lock().nodes.get(&name).cloned()
    }

    /// Returns the paths in the container of everything that was written.
    fn all_written(&self) -> Vec<String> {
        let mut all: Vec<String> = self.own.lock().nodes.keys().cloned().collect();
        for (above, written) in &self.mounted {
            all.extend(
                written
                    .lock()
                    .nodes
                    .keys()
                    .map(|name| format!("{}{name}", above.trim_end_matches('/'))),
            );
        }
        all
    }

    /// Reports whether this is the termination message file, and exists.
    fn is_for_last_words(&self, path: &str) -> bool {
        !self.last_words.is_empty()
            && path == self.last_words
            && covering(&self.mounts, Path::new(path)).is_some()
    }

    /// Returns the content of a file.
    pub(crate) fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let path = self.follow(path)?;
        let path = path.as_str();
        match self.node(path) {
            Some(Node::File { content, .. }) => return Ok(content),
            Some(Node::Directory) => return Err(ErrorKind::IsADirectory.into()),
            Some(Node::Link(_)) | None => {}
        }
        match path {
            "/dev/null" => Ok(Vec::new()),
            "/etc/hostname" if covering(&self.mounts, Path::new(path)).is_none() => {
                Ok(format!("{}\n", self.hostname).into_bytes())
            }
            _ if self.kind(path)? == Kind::Directory => Err(ErrorKind::IsADirectory.into()),
            _ => read(&self.mounts, path),
        }
    }

    /// Returns the kind of file at a path.
    pub(crate) fn kind(&self, path: &str) -> io::Result<Kind> {
        let path = self.follow(path)?;
        let path = path.as_str();
        match self.node(path) {
            Some(Node::File { content, .. }) => return Ok(Kind::File(content.len() as u64)),
            Some(Node::Directory) => return Ok(Kind::Directory),
            Some(Node::Link(_)) | None => {}
        }
        if covering(&self.mounts, Path::new(path)).is_some() {
            let metadata = fs::metadata(locate(&self.mounts, path)?)?;
            return Ok(if metadata.is_dir() {
                Kind::Directory
            } else {
                Kind::File(metadata.len())
            });
        }
        let is_above = |mount: &Mount| Path::new(&mount.container_path).starts_with(path);
        match path {
            "/dev/null" => Ok(Kind::File(0)),
            "/etc/hostname" => Ok(Kind::File(self.hostname.len() as u64 + 1)),
            _ if DIRECTORIES.contains(&path) || self.mounts.iter().any(is_above) => {
                Ok(Kind::Directory)
            }
            _ => Err(ErrorKind::NotFound.into()),
        }
    }

    /// Returns the names in a directory in order.
    pub(crate) fn list(&self, path: &str) -> io::Result<BTreeSet<String>> {
        let path = self.follow(path)?;
        let path = path.as_str();
        if self.kind(path)? != Kind::Directory {
            return Err(ErrorKind::NotADirectory.into());
        }
        let mut names = BTreeSet::new();
        let mut add = |other: &str| {
            let inside = Path::new(other).strip_prefix(path).ok();
            let name = inside.and_then(|inside| inside.components().next());
            names.extend(name.map(|name| name.as_os_str().to_string_lossy().into_owned()));
        };
        self.all_written().iter().for_each(|other| add(other));
        self.mounts
            .iter()
            .for_each(|mount| add(&mount.container_path));
        if covering(&self.mounts, Path::new(path)).is_none() {
            DIRECTORIES
                .iter()
                .chain(&["/dev/null", "/etc/hostname"])
                .for_each(|other| add(other));
        } else if let Ok(place) = locate(&self.mounts, path)
            && place.is_dir()
        {
            let entries = fs::read_dir(place)?.take(MAX_NAMES).filter_map(Result::ok);
            names.extend(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        }
        Ok(names)
    }

    /// Writes a file, or appends to it.
    pub(crate) fn write(&self, path: &str, bytes: &[u8], appends: bool) -> io::Result<()> {
        let path = self.follow(path)?;
        let path = path.as_str();
        if path == "/dev/null" {
            return Ok(());
        }
        if self.is_for_last_words(path) {
            return self.say_last(path, bytes, appends);
        }
        let (written, name) = self.place(path);
        if appends && let Some(appended) = written.lock().append(&name, bytes) {
            return appended;
        }
        let mut content = match self.kind(path) {
            Ok(Kind::Directory) => return Err(ErrorKind::IsADirectory.into()),
            Ok(Kind::File(_)) if appends => self.read(path)?,
            Ok(Kind::File(_)) | Err(_) => Vec::new(),
        };
        self.check(path)?;
        if content.len() + bytes.len() > MAX_WRITTEN {
            return Err(full());
        }
        content.extend_from_slice(bytes);
        written.lock().put(
            &name,
            Node::File {
                content,
                mode: FILE,
            },
        )
    }

    /// Sets the permissions of a written file.
    pub(crate) fn set_mode(&self, path: &str, mode: u32) {
        let (written, name) = self.place(path);
        if let Some(Node::File { mode: of_file, .. }) = written.lock().nodes.get_mut(&name) {
            *of_file = mode;
        }
    }

    /// Returns the metadata of a file; `user` and `group` are the owners of what was written.
    pub(crate) fn stat(&self, path: &str, user: u32, group: u32) -> io::Result<Stat> {
        let path = self.follow(path)?;
        let path = path.as_str();
        match self.node(path) {
            Some(Node::File { mode, .. }) => {
                return Ok(Stat {
                    mode: 0o100_000 | mode,
                    user,
                    group,
                });
            }
            Some(Node::Directory) => {
                return Ok(Stat {
                    mode: 0o040_755,
                    user,
                    group,
                });
            }
            Some(Node::Link(_)) | None => {}
        }
        if covering(&self.mounts, Path::new(path)).is_some() {
            let found = fs::metadata(locate(&self.mounts, path)?)?;
            return Ok(Stat {
                mode: found.mode(),
                user: found.uid(),
                group: found.gid(),
            });
        }
        let mode = if self.kind(path)? == Kind::Directory {
            0o040_755
        } else {
            0o100_644
        };
        Ok(Stat {
            mode,
            user: 0,
            group: 0,
        })
    }

    /// Reports whether a mounted path is on a file system in memory.
    pub(crate) fn is_in_memory(&self, path: &str) -> io::Result<bool> {
        let found = nix::sys::statfs::statfs(&locate(&self.mounts, path)?)?;
        Ok(found.filesystem_type() == nix::sys::statfs::TMPFS_MAGIC)
    }

    fn say_last(&self, path: &str, bytes: &[u8], appends: bool) -> io::Result<()> {
        let place = locate(&self.mounts, path)?;
        if !fs::metadata(&place)?.is_file() {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        let mut content = Vec::new();
        if appends {
            File::open(&place)?
                .take(MAX_LAST_WORDS)
                .read_to_end(&mut content)?;
        }
        content.extend_from_slice(bytes);
        content.truncate(usize::try_from(MAX_LAST_WORDS).unwrap_or(usize::MAX));
        File::options()
            .write(true)
            .truncate(true)
            .open(&place)?
            .write_all(&content)
    }

    /// Makes a directory; with `parents`, also those above it, and an existing one is no error.
    pub(crate) fn make_directory(&self, path: &str, parents: bool) -> io::Result<()> {
        let path = self.follow(path)?;
        let path = path.as_str();
        match self.kind(path) {
            Ok(Kind::Directory) if parents => return Ok(()),
            Ok(_) => return Err(ErrorKind::AlreadyExists.into()),
            Err(_) => {}
        }
        if parents && let Some(above) = parent(path) {
            self.make_directory(above, true)?;
        }
        self.check(path)?;
        let (written, name) = self.place(path);
        written.lock().put(&name, Node::Directory)
    }

    /// Removes what was written at a path and below it; of a link, the link itself.
    pub(crate) fn remove(&self, path: &str) -> io::Result<()> {
        let path = self.follow_above(path)?;
        let path = path.as_str();
        if self.node(path).is_none() {
            self.kind(path)?;
            return self.remove_volume(path);
        }
        let (written, name) = self.place(path);
        let mut written = written.lock();
        if self.is_read_only(path) {
            return Err(ErrorKind::ReadOnlyFilesystem.into());
        }
        let is_gone = |other: &&String| Path::new(other).starts_with(&name);
        let gone: Vec<String> = written.nodes.keys().filter(is_gone).cloned().collect();
        for name in gone {
            written.take(&name);
        }
        Ok(())
    }

    /// Removes the directory of a provisioned volume, which is empty on the host: what containers wrote there is in memory.
    fn remove_volume(&self, path: &str) -> io::Result<()> {
        self.check(path)?;
        let (above, name) = path.rsplit_once('/').ok_or(ErrorKind::PermissionDenied)?;
        if !is_volume_name(name) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let is_mount = self
            .mounts
            .iter()
            .any(|mount| mount.container_path.trim_end_matches('/') == path);
        if is_mount {
            return Err(ErrorKind::ResourceBusy.into());
        }
        // the name itself is not followed: a link stays, and so does its target
        let place = locate(&self.mounts, above)?.join(name);
        match fs::symlink_metadata(&place)?.is_dir() {
            // fails unless it is empty
            true => fs::remove_dir(place),
            false => Err(ErrorKind::PermissionDenied.into()),
        }
    }

    /// Checks whether something may be written at a path.
    pub(super) fn check(&self, path: &str) -> io::Result<()> {
        match parent(path).map(|above| self.kind(above)) {
            Some(Ok(Kind::Directory)) => {}
            Some(Ok(Kind::File(_))) => return Err(ErrorKind::NotADirectory.into()),
            Some(Err(error)) => return Err(error),
            None => return Err(ErrorKind::IsADirectory.into()),
        }
        if self.is_read_only(path) {
            Err(ErrorKind::ReadOnlyFilesystem.into())
        } else {
            Ok(())
        }
    }
}

/// Returns the parent directory; `None` for the root.
pub(super) fn parent(path: &str) -> Option<&str> {
    let (above, name) = path.rsplit_once('/')?;
    if name.is_empty() {
        return None;
    }
    Some(if above.is_empty() { "/" } else { above })
}

/// Reports whether a directory has the name of a provisioned volume: `pvc-UID_NAMESPACE_CLAIM`.
fn is_volume_name(name: &str) -> bool {
    let uid = name
        .get(..VOLUME_PREFIX)
        .and_then(|start| start.strip_prefix("pvc-")?.strip_suffix('_'));
    uid.is_some_and(|uid| {
        uid.bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    })
}
