//! A file beside the database that holds some space of its disk. It is removed when the disk is full, so that objects can still be
//! deleted and the database be opened, and written again once there is room. While it is missing, nothing may grow.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};

use clock::Instant;
use tokio::{fs, io::AsyncWriteExt};
use tracing::{info, warn};

use crate::{Event, EventKind};

/// The suffix of the file.
pub const SUFFIX: &str = ".reserve";
/// The extension of the file while it is written.
const UNFINISHED: &str = "reserving";
/// How long to wait before the file is written again.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// The bytes written at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// By how much a stored object may grow while the disk is full: a status that has a longer number in it.
const MAX_GROWTH_BYTES: usize = 1024;

/// The reserve of one database.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    bytes: usize,
    /// Whether the file was removed, or could not be written.
    is_released: bool,
    tried: Option<Instant>,
}

impl Reserve {
    /// Creates the reserve of the database at `path`; 0 bytes for none.
    pub(super) fn of(path: &Path, bytes: usize) -> Self {
        Self {
            path: with(path, SUFFIX),
            bytes,
            is_released: false,
            tried: None,
        }
    }

    /// Reports whether the disk is full, so that nothing may grow.
    pub(super) fn is_released(&self) -> bool {
        self.is_released
    }

    /// Removes the file because the disk is full. Returns whether that has made room.
    pub(super) async fn release(&mut self) -> bool {
        if self.bytes == 0 || fs::remove_file(&self.path).await.is_err() {
            return false;
        }
        self.is_released = true;
        self.tried = Some(Instant::now());
        warn!(
            reserve = %self.path.display(),
            bytes = self.bytes,
            "disk full: used the reserve of the store; objects can be deleted but not created until there is free space"
        );
        true
    }

    /// Writes the file unless it is there. Returns whether there is a reserve.
    pub(super) async fn fill(&mut self) -> bool {
        if self.bytes == 0 {
            return true;
        }
        self.tried = Some(Instant::now());
        let length = fs::metadata(&self.path).await.map_or(0, |file| file.len());
        if length == self.bytes as u64 {
            return true;
        }
        let unfinished = self.path.with_extension(UNFINISHED);
        let written = self.write(&unfinished).await;
        if let Err(error) = written {
            let _ = fs::remove_file(&unfinished).await;
            let is_full = matches!(
                error.kind(),
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded
            );
            if !self.is_released {
                let error = &error as &dyn std::error::Error;
                warn!(
                    error,
                    "failed to write the store's reserve file; a full disk will block start and deletion"
                );
            }
            // a directory that may not be written to leaves the store without a reserve
            self.is_released = is_full;
            return false;
        }
        if self.is_released {
            info!(reserve = %self.path.display(), bytes = self.bytes, "disk has space again; reserve file for a full disk restored");
        }
        self.is_released = false;
        true
    }

    /// Writes the file again if it is missing and was not tried just now.
    pub(super) async fn refill(&mut self) {
        if self.is_released
            && self
                .tried
                .is_none_or(|tried| tried.elapsed() >= RETRY_INTERVAL)
        {
            self.fill().await;
        }
    }

    /// A quarter as much again must be free, so that the next write does not need the reserve at once.
    async fn write(&self, unfinished: &Path) -> std::io::Result<()> {
        let mut file = fs::OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(unfinished)
            .await?;
        let chunk = vec![0xa5; CHUNK_BYTES];
        let mut left = self.bytes + self.bytes / 4;
        while left > 0 {
            let part = &chunk[..left.min(CHUNK_BYTES)];
            file.write_all(part).await?;
            left -= part.len();
        }
        file.set_len(self.bytes as u64).await?;
        file.sync_all().await?;
        fs::rename(unfinished, &self.path).await
    }
}

/// Reports whether the changes need more space than there was: not those that delete, or write the same again.
pub(super) fn grows(events: &[Event]) -> bool {
    events.iter().any(
        |Event {
             kind,
             object,
             previous,
         }| match (kind, previous) {
            (EventKind::Deleted, _) => false,
            (EventKind::Added, _) => true,
            // in place of a damaged object, whose size is not known
            (EventKind::Modified, None) => false,
            (EventKind::Modified, Some(previous)) => {
                object.json.len() > previous.json.len() + MAX_GROWTH_BYTES
            }
        },
    )
}

fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
