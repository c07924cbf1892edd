//! Moving a file out of the way that is damaged, or of another time, so that work can begin anew while nothing of it is lost for
//! whoever looks into it.

use std::{
    io,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use tokio::fs;

/// Files of a kind that are kept; the disk must not fill with them.
const KEPT: usize = 3;

/// What a damaged file is called.
pub(super) const DAMAGED: &str = "damaged";

/// The side files, in the order in which they are moved: a log without its file is ignored by SQLite, a file without its log
/// would be an older state.
const PARTS: [&str; 3] = ["", "-wal", "-shm"];

/// What the mark is called that stands beside a file in which something was once.
const MARK: &str = ".initialized";

/// What the file that a repair has made is called until it is in its place.
pub(super) const REPAIRED: &str = ".repaired";

/// Whether a repair was cut off after it had moved the damaged file away: the new one is whole and not in its place yet.
pub(super) async fn is_being_repaired(path: &Path) -> bool {
    let exists = async |path: &Path| fs::try_exists(path).await.unwrap_or(false);
    !exists(path).await && exists(&with(path, REPAIRED)).await
}

/// Whether the file was cut to nothing although it had something in it: its log still holds that, and SQLite itself would throw the log
/// away; or the mark beside it says so. A file that somebody has moved away is no such one.
pub(super) async fn is_cut_to_nothing(path: &Path) -> bool {
    let length = async |path: PathBuf| fs::metadata(path).await.ok().map(|file| file.len());
    match length(path.to_owned()).await {
        Some(0) => length(with(path, "-wal")).await > Some(0) || length(with(path, MARK)).await.is_some(),
        Some(_) => false,
        None => length(with(path, "-wal")).await > Some(0),
    }
}

/// Notes beside the file that there is something in it now.
pub(super) async fn mark(path: &Path) -> io::Result<()> {
    let mark = with(path, MARK);
    if fs::try_exists(&mark).await? {
        return Ok(());
    }
    fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&mark).await?.sync_all().await?;
    sync_directory(path).await
}

/// What was done to the names in the file's directory is on the disk.
pub(super) async fn sync_directory(path: &Path) -> io::Result<()> {
    // a path without a directory is in the working directory
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    fs::File::open(directory.unwrap_or(Path::new("."))).await?.sync_all().await
}

/// Renames the file at `path` and its side files to `<file>.<word>-<time>`; answers the new name. Of several from earlier days the
/// newest stay.
pub(super) async fn set_aside(path: &Path, word: &str, now: Timestamp) -> io::Result<PathBuf> {
    let stamp = now.strftime("%Y%m%dT%H%M%S%.6fZ");
    let aside = with(path, &format!(".{word}-{stamp}"));
    for part in PARTS {
        match fs::rename(with(path, part), with(&aside, part)).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let all = earlier(path, word).await?;
    for old in all.iter().rev().skip(KEPT) {
        for part in PARTS {
            // one that cannot be removed is no reason not to begin anew
            let _ = fs::remove_file(with(old, part)).await;
        }
    }
    sync_directory(path).await?;
    Ok(aside)
}

/// The files that were set aside from `path` under this word, the oldest first.
pub(super) async fn earlier(path: &Path, word: &str) -> io::Result<Vec<PathBuf>> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return Ok(Vec::new()) };
    let prefix = format!("{}.{word}-", name.to_string_lossy());
    let mut found = Vec::new();
    let mut entries = match fs::read_dir(directory).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    while let Some(entry) = entries.next_entry().await? {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&prefix) && !PARTS.iter().any(|part| !part.is_empty() && name.ends_with(part)) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// The path with this behind it.
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
            for part in PARTS {
                std::fs::write(with(&path, part), part).unwrap();
            }
            made.push(set_aside(&path, DAMAGED, Timestamp::from_second(second).unwrap()).await.unwrap());
            assert!(!path.exists());
        }
        assert_eq!(made[4].file_name().unwrap(), "a.db.damaged-19700101T000004.000000Z");
        assert_eq!(earlier(&path, DAMAGED).await.unwrap(), made[2..]);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 9);
        assert_eq!(std::fs::read_to_string(with(&made[4], "-wal")).unwrap(), "-wal");
    }

    #[tokio::test]
    async fn where_nothing_is_nothing_was_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        assert!(earlier(&directory.path().join("no/a.db"), DAMAGED).await.unwrap().is_empty());
        assert!(earlier(&directory.path().join("a.db"), DAMAGED).await.unwrap().is_empty());
        assert!(!is_cut_to_nothing(&directory.path().join("a.db")).await);
    }
}
