//! What containers have written, in memory: each container's own files, and what it has written to mounts, which it shares with all
//! containers of the node that mount the same.

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind},
    path::Path,
    sync::Arc,
};

use parking_lot::Mutex;

/// The most bytes of what was written in one place, including the names.
pub(super) const MAX_WRITTEN: usize = 1 << 20;
/// How many bytes a file or directory counts in addition to its name and content.
const NODE: usize = 128;
/// For how many directories of the host that no container mounts now the written files are kept.
const MAX_LEFT: usize = 64;

/// A written file, directory or link.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Directory,
    File {
        content: Vec<u8>,
        /// The permissions of the file.
        mode: u32,
    },
    /// A symbolic link and its target.
    Link(String),
}

/// The files that were written in one place.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// The files by path.
    pub(super) nodes: BTreeMap<String, Node>,
    bytes: usize,
}

/// What was written to the directories of the host that containers mount, by the path on the host.
#[derive(Debug, Default)]
pub(crate) struct Shared(Mutex<BTreeMap<String, Arc<Mutex<Written>>>>);

impl Shared {
    /// Returns what was written to one of them.
    pub(crate) fn of(&self, host_path: &str) -> Arc<Mutex<Written>> {
        Arc::clone(self.0.lock().entry(host_path.to_owned()).or_default())
    }

    /// Forgets what no container mounts any more, such as volumes of pods that are gone.
    pub(crate) fn clean(&self) {
        let mut all = self.0.lock();
        let mut left = 0;
        all.retain(|host_path, written| {
            if Arc::strong_count(written) > 1 {
                return true;
            }
            let is_left = !written.lock().nodes.is_empty() && Path::new(host_path).exists();
            left += usize::from(is_left);
            is_left && left <= MAX_LEFT
        });
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

    /// Appends to a file that was written before; returns `None` if there is no such file.
    pub(super) fn append(&mut self, path: &str, bytes: &[u8]) -> Option<io::Result<()>> {
        let Some(Node::File { content, .. }) = self.nodes.get_mut(path) else {
            return None;
        };
        if self.bytes + bytes.len() > MAX_WRITTEN {
            return Some(Err(full()));
        }
        self.bytes += bytes.len();
        content.extend_from_slice(bytes);
        Some(Ok(()))
    }

    pub(super) fn take(&mut self, path: &str) {
        if let Some(node) = self.nodes.remove(path) {
            self.bytes -= size(path, &node);
        }
    }
}

fn size(path: &str, node: &Node) -> usize {
    let content = match node {
        Node::Directory => 0,
        Node::File { content, .. } => content.len(),
        Node::Link(target) => target.len(),
    };
    NODE + path.len() + content
}

pub(super) fn full() -> io::Error {
    io::Error::new(ErrorKind::StorageFull, "No space left on device")
}
