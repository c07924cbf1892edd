//! Measures the disk usage of directories. Blocks on the disk.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Size of the blocks that `stat` counts, independent of the file system's.
const BLOCK: u64 = 512;

/// Disk usage of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskUsage {
    /// Bytes of all blocks.
    pub(crate) bytes: u64,
    /// Number of files and directories, including the top directory.
    pub(crate) inodes: u64,
    /// Whether everything was counted: there were at most `max` files.
    pub(crate) is_complete: bool,
}

/// Returns the disk usage of `directory` and all below it. Counts as `du -x` does: follows no links, enters no other file system and
/// counts a file with several names once; counts at most `max` files.
pub(crate) fn of_directory(directory: &Path, max: u64) -> io::Result<DiskUsage> {
    let top = fs::symlink_metadata(directory)?;
    let mut used = DiskUsage {
        bytes: top.blocks().saturating_mul(BLOCK),
        inodes: 1,
        is_complete: true,
    };
    let mut seen = BTreeSet::new();
    let mut directories = if top.is_dir() {
        vec![PathBuf::from(directory)]
    } else {
        Vec::new()
    };
    while let Some(directory) = directories.pop() {
        // Files that vanish meanwhile are not counted.
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.dev() != top.dev()
                || (!metadata.is_dir() && metadata.nlink() > 1 && !seen.insert(metadata.ino()))
            {
                continue;
            }
            if used.inodes == max {
                return Ok(DiskUsage {
                    is_complete: false,
                    ..used
                });
            }
            used.inodes += 1;
            used.bytes = used
                .bytes
                .saturating_add(metadata.blocks().saturating_mul(BLOCK));
            if metadata.is_dir() {
                directories.push(entry.path());
            }
        }
    }
    Ok(used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_once_and_links_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let empty = of_directory(place.path(), 100).unwrap();
        fs::create_dir(place.path().join("sub")).unwrap();
        fs::write(place.path().join("sub/a"), vec![1; 100_000]).unwrap();
        fs::hard_link(place.path().join("sub/a"), place.path().join("b")).unwrap();
        std::os::unix::fs::symlink("/", place.path().join("c")).unwrap();
        let full = of_directory(place.path(), 4).unwrap();
        assert_eq!(
            (full.inodes, full.is_complete),
            (4, true),
            "the place, a directory, a file, a link"
        );
        assert!(
            (100_000..150_000).contains(&(full.bytes - empty.bytes)),
            "{full:?} - {empty:?}"
        );
        let less = of_directory(place.path(), 3).unwrap();
        assert_eq!((less.inodes, less.is_complete), (3, false));
        assert!(of_directory(Path::new("/nowhere/at/all"), 100).is_err());
    }
}
