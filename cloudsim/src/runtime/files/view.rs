//! A container's files as its commands see them: a few directories that every image has, what is mounted, and over both, in memory,
//! what was written. Nothing is ever written to the host.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, ErrorKind},
    path::Path,
};

use parking_lot::Mutex;
use wire::cri::Mount;

use super::{covering, locate, read};

/// What every container has.
const DIRECTORIES: [&str; 13] = [
    "/", "/bin", "/dev", "/etc", "/home", "/opt", "/proc", "/root", "/run", "/tmp", "/usr", "/usr/bin",
    "/var",
];
/// Bytes of what a container has written, its names among them.
const MAX_WRITTEN: usize = 1 << 20;
/// What a file or directory takes besides.
const NODE: usize = 128;
/// Names of one directory of the host that are listed.
const MAX_NAMES: usize = 4096;

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    /// With its size in bytes.
    File(u64),
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    Directory,
    File(Vec<u8>),
    /// A symbolic link, and where it leads.
    Link(String),
}

/// The files of one container. Paths are absolute and have neither `.` nor `..` in them.
#[derive(Debug)]
pub(crate) struct Files {
    mounts: Vec<Mount>,
    hostname: String,
    pub(super) written: Mutex<Written>,
}

#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) nodes: BTreeMap<String, Node>,
    bytes: usize,
}

impl Files {
    pub(crate) fn new(mounts: Vec<Mount>, hostname: String) -> Self {
        Self { mounts, hostname, written: Mutex::default() }
    }

    /// The content of a file.
    pub(crate) fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let path = self.follow(path)?;
        let path = path.as_str();
        match self.written.lock().nodes.get(path) {
            Some(Node::File(content)) => return Ok(content.clone()),
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

    /// What is at a path.
    pub(crate) fn kind(&self, path: &str) -> io::Result<Kind> {
        let path = self.follow(path)?;
        let path = path.as_str();
        match self.written.lock().nodes.get(path) {
            Some(Node::File(content)) => return Ok(Kind::File(content.len() as u64)),
            Some(Node::Directory) => return Ok(Kind::Directory),
            Some(Node::Link(_)) | None => {}
        }
        if covering(&self.mounts, Path::new(path)).is_some() {
            let metadata = fs::metadata(locate(&self.mounts, path)?)?;
            return Ok(if metadata.is_dir() { Kind::Directory } else { Kind::File(metadata.len()) });
        }
        let is_above = |mount: &Mount| Path::new(&mount.container_path).starts_with(path);
        match path {
            "/dev/null" => Ok(Kind::File(0)),
            "/etc/hostname" => Ok(Kind::File(self.hostname.len() as u64 + 1)),
            _ if DIRECTORIES.contains(&path) || self.mounts.iter().any(is_above) => Ok(Kind::Directory),
            _ => Err(ErrorKind::NotFound.into()),
        }
    }

    /// The names in a directory, in order.
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
        self.written.lock().nodes.keys().for_each(|other| add(other));
        self.mounts.iter().for_each(|mount| add(&mount.container_path));
        if covering(&self.mounts, Path::new(path)).is_none() {
            DIRECTORIES.iter().chain(&["/dev/null", "/etc/hostname"]).for_each(|other| add(other));
        } else if let Ok(place) = locate(&self.mounts, path)
            && place.is_dir()
        {
            let entries = fs::read_dir(place)?.take(MAX_NAMES).filter_map(Result::ok);
            names.extend(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        }
        Ok(names)
    }

    /// Writes a file, or goes on at its end.
    pub(crate) fn write(&self, path: &str, bytes: &[u8], appends: bool) -> io::Result<()> {
        let path = self.follow(path)?;
        let path = path.as_str();
        if path == "/dev/null" {
            return Ok(());
        }
        if appends && let Some(appended) = self.written.lock().append(path, bytes) {
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
        self.written.lock().put(path, Node::File(content))
    }

    /// Makes a directory; with `parents`, those above it too, and none where there is one.
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
        self.written.lock().put(path, Node::Directory)
    }

    /// Removes what was written at a path, and below it; of a link, the link itself.
    pub(crate) fn remove(&self, path: &str) -> io::Result<()> {
        let path = self.follow_above(path)?;
        let path = path.as_str();
        if !self.written.lock().nodes.contains_key(path) {
            self.kind(path)?;
            return Err(ErrorKind::PermissionDenied.into());
        }
        let mut written = self.written.lock();
        let is_gone = |other: &&String| Path::new(other).starts_with(path);
        let gone: Vec<String> = written.nodes.keys().filter(is_gone).cloned().collect();
        for path in gone {
            written.take(&path);
        }
        Ok(())
    }

    /// Whether something may be written there.
    pub(super) fn check(&self, path: &str) -> io::Result<()> {
        match parent(path).map(|above| self.kind(above)) {
            Some(Ok(Kind::Directory)) => {}
            Some(Ok(Kind::File(_))) => return Err(ErrorKind::NotADirectory.into()),
            Some(Err(error)) => return Err(error),
            None => return Err(ErrorKind::IsADirectory.into()),
        }
        match covering(&self.mounts, Path::new(path)) {
            Some(mount) if mount.readonly => Err(ErrorKind::ReadOnlyFilesystem.into()),
            _ => Ok(()),
        }
    }
}

impl Written {
    pub(super) fn put(&mut self, path: &str, node: Node) -> io::Result<()> {
        let old = self.nodes.get(path).map_or(0, |old| size(path, old));
        let bytes = self.bytes - old + size(path, &node);
        if bytes > MAX_WRITTEN {
            return Err(full());
        }
        self.bytes = bytes;
        self.nodes.insert(path.to_owned(), node);
        Ok(())
    }

    /// Goes on at the end of a file that was written before; none where there is no such file.
    fn append(&mut self, path: &str, bytes: &[u8]) -> Option<io::Result<()>> {
        let Some(Node::File(content)) = self.nodes.get_mut(path) else { return None };
        if self.bytes + bytes.len() > MAX_WRITTEN {
            return Some(Err(full()));
        }
        self.bytes += bytes.len();
        content.extend_from_slice(bytes);
        Some(Ok(()))
    }

    fn take(&mut self, path: &str) {
        if let Some(node) = self.nodes.remove(path) {
            self.bytes -= size(path, &node);
        }
    }
}

fn size(path: &str, node: &Node) -> usize {
    let content = match node {
        Node::Directory => 0,
        Node::File(content) => content.len(),
        Node::Link(target) => target.len(),
    };
    NODE + path.len() + content
}

fn full() -> io::Error {
    io::Error::new(ErrorKind::StorageFull, "No space left on device")
}

/// The directory that something is in; the root is in none.
pub(super) fn parent(path: &str) -> Option<&str> {
    let (above, name) = path.rsplit_once('/')?;
    if name.is_empty() {
        return None;
    }
    Some(if above.is_empty() { "/" } else { above })
}
