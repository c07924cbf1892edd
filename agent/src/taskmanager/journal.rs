//! Small JSON files that a job keeps beside edgecore.yaml, where a start finds them before it reads anything else.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};
use tracing::warn;

/// The largest file, bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// Returns the path of a file beside edgecore.yaml, or beside the agent's program.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}.{suffix}", path.display()))
}

/// Reads a file; `None` if there is no valid one.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let is_small = fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MAX_BYTES);
    let text = is_small.then(|| fs::read(path).ok()).flatten()?;
    serde_json::from_slice(&text).ok()
}

/// Replaces a file; the disk has the new one when this returns.
pub(super) fn write<T: Serialize>(path: &Path, content: &T) -> io::Result<()> {
    crate::file::replace(path, &serde_json::to_vec(content)?, 0o600)
}

/// Removes a file, if it exists.
pub(super) fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        warn!(file = %path.display(), %error, "failed to remove a file");
    }
}
