//! `emptyDir` volumes: on the node's disk or in memory, removed with the pod.
//!
//! Source: <https://kubernetes.io/docs/concepts/storage/volumes/#emptydir>.

use std::path::Path;

use fs_err as fs;
use k8s_openapi::api::core::v1::EmptyDirVolumeSource;

use super::{atomic, error::Error, memory, remove};
use crate::downward::Downward;

/// Mode of the directory, which every user of the pod may use, as the kubelet's.
const MODE: u32 = 0o777;
/// Extension of a directory that is not complete yet. Names of volumes contain no dots.
const UNFINISHED: &str = "new";

/// Creates the volume at `dir` if it does not exist.
pub(super) fn set_up(
    dir: &Path,
    source: &EmptyDirVolumeSource,
    downward: &Downward<'_>,
) -> Result<(), Error> {
    if !dir.is_dir() {
        create(dir, downward.fs_group())?;
    }
    if source.medium.as_deref() == Some("Memory") {
        memory::ensure_tmpfs(dir, MODE, source.size_limit.as_ref(), downward)
    } else {
        Ok(())
    }
}

/// Creates the directory atomically: an interruption leaves no incomplete one.
fn create(dir: &Path, group: Option<u32>) -> Result<(), Error> {
    let unfinished = dir.with_extension(UNFINISHED);
    remove::remove(&unfinished)?;
    fs::create_dir_all(&unfinished)?;
    match group {
        Some(group) => atomic::set_group(&unfinished, group, MODE)?,
        None => atomic::set_mode(&unfinished, MODE)?,
    }
    Ok(fs::rename(&unfinished, dir)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn interrupted_creation_is_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("volumes/v");
        fs::create_dir_all(dir.with_extension(UNFINISHED).join("half")).unwrap();
        create(&dir, None).unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o7777, MODE);
        assert!(!memory::has_content(&dir).unwrap() && !memory::is_mounted(&dir).unwrap());
        assert!(!dir.with_extension(UNFINISHED).exists());
    }
}
