//! Reads the folder of manifests and watches it for changes.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, ErrorKind, Read},
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::Pod;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::net::unix::pipe;

use super::manifest;

/// Maximum size of a manifest in bytes, more than the API server accepts.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Maximum number of manifests, more than a node's maximum number of pods.
const MAX_FILES: usize = 1000;

/// The content of the folder.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Files {
    /// Pods by file name.
    pub(super) pods: BTreeMap<String, Pod>,
    /// Invalid files with the reason.
    pub(super) invalid: BTreeMap<String, String>,
}

/// Reads all manifests; `path` may also be a single file. A missing folder counts as empty.
///
/// # Errors
/// The folder cannot be listed.
pub(super) fn read(path: &Path, node: &str) -> io::Result<Files> {
    let mut files = Files::default();
    for path in manifest_paths(path)? {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        match read_file(&path, name, node) {
            Ok(pod) => match file_of_same_name(&files, &pod) {
                None => {
                    files.pods.insert(name.to_owned(), pod);
                }
                Some(other) => {
                    files.invalid.insert(
                        name.to_owned(),
                        format!("{other} has a pod of the same name already"),
                    );
                }
            },
            Err(why) => {
                files.invalid.insert(name.to_owned(), why);
            }
        }
    }
    Ok(files)
}

/// Returns the paths of manifests, sorted by name: files that are not hidden, and links to files.
fn manifest_paths(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Ok(vec![path.to_owned()]),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let extension = path.extension().and_then(|extension| extension.to_str());
        let is_manifest = matches!(extension, Some("yaml" | "yml" | "json"));
        if !hidden && is_manifest && fs::metadata(&path).is_ok_and(|file| file.is_file()) {
            paths.push(path);
        }
    }
    paths.sort();
    paths.truncate(MAX_FILES);
    Ok(paths)
}

fn read_file(path: &Path, name: &str, node: &str) -> Result<Pod, String> {
    let mut text = String::new();
    let read =
        fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text));
    match read {
        Ok(size) if size as u64 > MAX_BYTES => Err(format!("it has more than {MAX_BYTES} bytes")),
        Ok(_) => manifest::pod(&text, name, node, clock::now()).map_err(|error| error.to_string()),
        Err(error) => Err(format!(
            "cannot read it: {error}; write a UTF-8 file that the agent may read"
        )),
    }
}

fn file_of_same_name<'a>(files: &'a Files, pod: &Pod) -> Option<&'a String> {
    let key = |pod: &Pod| (pod.metadata.namespace.clone(), pod.metadata.name.clone());
    files
        .pods
        .iter()
        .find(|(_, other)| key(other) == key(pod))
        .map(|(file, _)| file)
}

/// Reports one change in the folder. A change that it misses is found by the next sync.
#[derive(Debug)]
pub(super) struct FolderWatch(pipe::Receiver);

impl FolderWatch {
    /// Watches for files that were completely written or moved; `path` may also be a single file.
    ///
    /// # Errors
    /// The folder does not exist, or the system has no inotify watches left.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        let what = AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF;
        inotify.add_watch(path, what)?;
        // the descriptor is only waited for, as a pipe would be
        Ok(Self(pipe::Receiver::from_owned_fd_unchecked(
            inotify.into(),
        )?))
    }

    /// Waits for a change, including the removal of the folder.
    pub(super) async fn changed(&self) -> io::Result<()> {
        self.0.readable().await
    }
}

#[cfg(test)]
mod tests;
