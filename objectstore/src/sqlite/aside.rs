//! Moves a damaged or outdated file aside, so that work can begin with a new one and the old one can still be examined.

use std::{
    io,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use tokio::fs;

/// How many files of a kind are kept, so that they cannot fill the disk.
const MAX_DAMAGED_FILES: usize = 3;

/// The word in the name of a damaged file that was moved aside.
pub(super) const DAMAGED: &str = "damaged";

/// The suffixes of the files of a database, in the order in which they are moved: a log without its file is ignored by SQLite, a file
/// without its log would be an older state.
const FILE_SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];

/// The suffix of the marker file beside a database that has held objects.
const INITIALIZED_SUFFIX: &str = ".initialized";

/// The suffix of the file that a repair has written, until it is renamed to the database.
pub(super) const REPAIRED_SUFFIX: &str = ".repaired";

/// Reports whether a repair was interrupted after it had moved the damaged file aside: the new file is complete and not renamed yet.
pub(super) async fn is_being_repaired(path: &Path) -> bool {
    let exists = async |path: &Path| fs::try_exists(path).await.unwrap_or(false);
    !exists(path).await && exists(&with(path, REPAIRED_SUFFIX)).await
}

/// Reports whether the file was truncated to nothing although it held objects: its log still holds some, which SQLite itself would
/// throw away, or the marker file exists. A file that was moved away does not count.
pub(super) async fn is_cut_to_nothing(path: &Path) -> bool {
    let length = async |path: PathBuf| fs::metadata(path).await.ok().map(|file| file.len());
    match length(path.to_owned()).await {
        Some(0) => {
            length(with(path, "-wal")).await > Some(0)
                || length(with(path, INITIALIZED_SUFFIX)).await.is_some()
        }
        Some(_) => false,
        None => length(with(path, "-wal")).await > Some(0),
    }
}

/// Creates the marker file beside a database that holds objects.
pub(super) async fn mark(path: &Path) -> io::Result<()> {
    let mark = with(path, INITIALIZED_SUFFIX);
    if fs::try_exists(&mark).await? {
        return Ok(());
    }
    fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&mark)
        .await?
        .sync_all()
        .await?;
    sync_directory(path).await
}

/// Syncs the file's directory, so that renames and removals are on the disk.
pub(super) async fn sync_directory(path: &Path) -> io::Result<()> {
    // a path without a directory is in the working directory
    let directory = path
        .parent()
        .filter(|directory| !directory.as_os_str().is_empty());
    fs::File::open(directory.unwrap_or(Path::new(".")))
        .await?
        .sync_all()
        .await
}

/// Renames the file at `path` and its side files to `<file>.<word>-<time>`; returns the new name. The newest of several are kept.
pub(super) async fn set_aside(path: &Path, word: &str, now: Timestamp) -> io::Result<PathBuf> {
    let stamp = now.strftime("%Y%m%dT%H%M%S%.6fZ");
    let aside = with(path, &format!(".{word}-{stamp}"));
    for part in FILE_SUFFIXES {
        match fs::rename(with(path, part), with(&aside, part)).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let all = earlier(path, word).await?;
    for old in all.iter().rev().skip(MAX_DAMAGED_FILES) {
        for part in FILE_SUFFIXES {
            // one that cannot be removed is no reason not to begin anew
            let _ = fs::remove_file(with(old, part)).await;
        }
    }
    sync_directory(path).await?;
    Ok(aside)
}

/// Lists the files that were set aside from `path` under this word, the oldest first.
pub(super) async fn earlier(path: &Path, word: &str) -> io::Result<Vec<PathBuf>> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(Vec::new());
    };
    let prefix = format!("{}.{word}-", name.to_string_lossy());
    let mut found = Vec::new();
    let mut entries = match fs::read_dir(directory).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    while let Some(entry) = entries.next_entry().await? {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&prefix)
            && !FILE_SUFFIXES
                .iter()
                .any(|part| !part.is_empty() && name.ends_with(part))
        {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the path with this suffix.
pub(super) fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_newest_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let mut made = Vec::new();
        for second in 0..5 {
            for part in FILE_SUFFIXES {
                std::fs::write(with(&path, part), part).unwrap();
            }
            made.push(
                set_aside(&path, DAMAGED, Timestamp::from_second(second).unwrap())
                    .await
                    .unwrap(),
            );
            assert!(!path.exists());
        }
        assert_eq!(
            made[4].file_name().unwrap(),
            "a.db.damaged-19700101T000004.000000Z"
        );
        assert_eq!(earlier(&path, DAMAGED).await.unwrap(), made[2..]);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 9);
        assert_eq!(
            std::fs::read_to_string(with(&made[4], "-wal")).unwrap(),
            "-wal"
        );
    }

    #[tokio::test]
    async fn where_nothing_is_nothing_was_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        assert!(
            earlier(&directory.path().join("no/a.db"), DAMAGED)
                .await
                .unwrap()
                .is_empty()
        );
        assert!(
            earlier(&directory.path().join("a.db"), DAMAGED)
                .await
                .unwrap()
                .is_empty()
        );
        assert!(!is_cut_to_nothing(&directory.path().join("a.db")).await);
    }
}
