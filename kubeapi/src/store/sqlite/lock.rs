//! One store for a file: revisions are counted in memory and watchers are told from there, so that a second program would break
//! both. The lock is on a file beside it, since the file itself may be renamed; the system ends it with the process.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::{Instant, sleep};

/// How long whoever has it may take to end: a process that is being replaced, or a writer that closes its file.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often it is tried.
const AGAIN: Duration = Duration::from_millis(10);

/// Held as long as this is there.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Takes the lock of the store at `path`.
///
/// # Errors
/// `WouldBlock`: somebody has it and keeps it.
pub(super) async fn take(path: &Path) -> io::Result<Lock> {
    take_within(path, PATIENCE).await
}

async fn take_within(path: &Path, patience: Duration) -> io::Result<Lock> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(beside(path))?;
    let end = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Lock { _file: file }),
            Err(TryLockError::WouldBlock) if Instant::now() < end => sleep(AGAIN).await,
            Err(error) => return Err(error.into()),
        }
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_has_one_owner_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("objects.db");
        let first = take(&path).await.unwrap();
        let refused = take_within(&path, Duration::ZERO).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        // whoever waits gets it when the first one ends
        let next = tokio::spawn(async move { take(&path).await });
        drop(first);
        next.await.unwrap().unwrap();
    }
}
