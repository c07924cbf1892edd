//! What a directory and all below it take on disk. Blocks on the disk.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// What `stat` counts blocks in, whatever the disk's own size.
const BLOCK: u64 = 512;

/// Blocks and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// Bytes of all blocks.
    pub(crate) bytes: u64,
    /// Files and directories, the top among them.
    pub(crate) inodes: u64,
    /// Whether that is all: no more than `max` were there.
    pub(crate) whole: bool,
}

/// Counts as `du -x` does: no link followed, no other disk entered, a file of several names counted once; not more than `max`
/// files.
pub(crate) fn below(place: &Path, max: u64) -> io::Result<Used> {
    let top = fs::symlink_metadata(place)?;
    let mut used = Used { bytes: top.blocks().saturating_mul(BLOCK), inodes: 1, whole: true };
    let mut seen = BTreeSet::new();
    let mut directories = if top.is_dir() { vec![PathBuf::from(place)] } else { Vec::new() };
    while let Some(directory) = directories.pop() {
        // What vanishes while it is counted is not counted.
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.dev() != top.dev()
                || (!metadata.is_dir() && metadata.nlink() > 1 && !seen.insert(metadata.ino()))
            {
                continue;
            }
            if used.inodes == max {
                return Ok(Used { whole: false, ..used });
            }
            used.inodes += 1;
            used.bytes = used.bytes.saturating_add(metadata.blocks().saturating_mul(BLOCK));
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
        let empty = below(place.path(), 100).unwrap();
        fs::create_dir(place.path().join("sub")).unwrap();
        fs::write(place.path().join("sub/a"), vec![1; 100_000]).unwrap();
        fs::hard_link(place.path().join("sub/a"), place.path().join("b")).unwrap();
        std::os::unix::fs::symlink("/", place.path().join("c")).unwrap();
        let full = below(place.path(), 4).unwrap();
        assert_eq!((full.inodes, full.whole), (4, true), "the place, a directory, a file, a link");
        assert!((100_000..150_000).contains(&(full.bytes - empty.bytes)), "{full:?} - {empty:?}");
        let less = below(place.path(), 3).unwrap();
        assert_eq!((less.inodes, less.whole), (3, false));
        assert!(below(Path::new("/nowhere/at/all"), 100).is_err());
    }
}
