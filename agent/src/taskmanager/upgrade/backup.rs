//! Backs up the program, its configuration and its database before an upgrade.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use nix::sys::statvfs::statvfs;
use sqlx::{ConnectOptions, Connection, sqlite::SqliteConnectOptions};

/// The directory of backups, beside the database.
const DIRECTORY: &str = "backup";
/// How many backups are kept.
const KEPT: usize = 2;

/// Returns the directory of backups.
pub(super) fn directory(database: &Path) -> PathBuf {
    database.with_file_name(DIRECTORY)
}

/// Checks that the disk of a file has `bytes` of free space.
pub(super) fn check_space(file: &Path, bytes: u64) -> Result<(), String> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let disk =
        statvfs(folder).map_err(|error| format!("cannot measure {}: {error}", folder.display()))?;
    // these types differ between platforms
    let number = |count| u64::try_from(i128::from(count)).unwrap_or_default();
    let free = number(disk.blocks_available()) * number(disk.fragment_size());
    if free >= bytes {
        return Ok(());
    }
    Err(format!(
        "the disk of {} has {} MB of free space, and the upgrade needs {} MB",
        folder.display(),
        free >> 20,
        (bytes >> 20) + 1
    ))
}

/// Returns the size of a file, 0 if there is none.
pub(super) fn size(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |file| file.len())
}

/// Copies the files under these names into a directory of this version, and the database; only the latest backups are kept.
pub(super) async fn back_up(
    version: &str,
    database: &Path,
    files: [(&Path, &OsStr); 2],
) -> Result<(), String> {
    let all = directory(database);
    let (target, unfinished) = (all.join(version), all.join("unfinished"));
    let failed = |error: io::Error| format!("cannot write {}: {error}", unfinished.display());
    let copy = async {
        remove(&unfinished)?;
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&all)?;
        fs::DirBuilder::new().mode(0o700).create(&unfinished)?;
        for (file, name) in files {
            let to = unfinished.join(name);
            fs::copy(file, &to)?;
            fs::File::open(to)?.sync_all()?;
        }
        let to = unfinished.join(database.file_name().unwrap_or_default());
        copy_database(database, &to)
            .await
            .map_err(io::Error::other)?;
        fs::File::open(to)?.sync_all()?;
        fs::File::open(&unfinished)?.sync_all()?;
        remove(&target)?;
        crate::file::rename(&unfinished, &target)?;
        remove_old(&all)
    };
    let done = copy.await.map_err(failed);
    if done.is_err() {
        // the first error counts
        let _ = remove(&unfinished);
    }
    done
}

/// Copies a database that is in use, as it is at this moment.
async fn copy_database(from: &Path, to: &Path) -> sqlx::Result<()> {
    let options = SqliteConnectOptions::new().filename(from);
    let mut connection = options.connect().await?;
    let copied = sqlx::query("VACUUM INTO ?")
        .bind(to.to_string_lossy().into_owned())
        .execute(&mut connection)
        .await;
    connection.close().await?;
    copied.map(drop)
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn remove_old(directory: &Path) -> io::Result<()> {
    let mut all: Vec<(SystemTime, PathBuf)> = fs::read_dir(directory)?
        .map(|entry| {
            let entry = entry?;
            Ok((entry.metadata()?.modified()?, entry.path()))
        })
        .collect::<io::Result<_>>()?;
    all.sort();
    let old = all.len().saturating_sub(KEPT);
    all.iter().take(old).try_for_each(|(_, path)| remove(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_latest_backups_are_kept_with_a_database_that_opens() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["edge-agent", "edgecore.yaml"] {
            fs::write(path(name), name).unwrap();
        }
        let database = path("agent.db");
        let options = SqliteConnectOptions::new()
            .filename(&database)
            .create_if_missing(true);
        let mut open = options.connect().await.unwrap();
        sqlx::raw_sql("PRAGMA journal_mode = WAL; CREATE TABLE a (b); INSERT INTO a VALUES (7)")
            .execute(&mut open)
            .await
            .unwrap();
        for version in ["v1.0.0", "v1.0.1", "v1.0.1", "v1.0.2"] {
            let [program, config] = [path("edge-agent"), path("edgecore.yaml")];
            let files = [
                (program.as_path(), OsStr::new("edge-agent")),
                (config.as_path(), OsStr::new("edgecore.yaml")),
            ];
            back_up(version, &database, files).await.unwrap();
        }
        let names = |at: &Path| {
            let all = fs::read_dir(at).unwrap();
            let mut all: Vec<_> = all.map(|one| one.unwrap().file_name()).collect();
            all.sort();
            all
        };
        assert_eq!(names(&path("backup")), ["v1.0.1", "v1.0.2"]);
        let latest = path("backup/v1.0.2");
        assert_eq!(names(&latest), ["agent.db", "edge-agent", "edgecore.yaml"]);
        let options = SqliteConnectOptions::new().filename(latest.join("agent.db"));
        let mut copy = options.connect().await.unwrap();
        let value: i64 = sqlx::query_scalar("SELECT b FROM a")
            .fetch_one(&mut copy)
            .await
            .unwrap();
        assert_eq!(value, 7);
    }

    #[test]
    fn a_disk_without_enough_space_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x");
        assert_eq!(check_space(&file, 1), Ok(()));
        let why = check_space(&file, u64::MAX).unwrap_err();
        assert!(why.contains("MB of free space"), "{why}");
    }
}
