//! Turns errors of the database into [`StoreError`]s that name a cure.

use std::{io, path::Path, sync::Arc};

use super::{
    result_code::{extended_code, is_damage},
    seal::SealError,
};
use crate::StoreError;

/// The system's number for a disk without space.
const ENOSPC: i32 = 28;

/// Makes errors that name the file.
#[derive(Clone, Debug)]
pub(crate) struct ErrorContext(Arc<str>);

impl ErrorContext {
    pub(crate) fn of(path: &Path) -> Self {
        Self(path.display().to_string().into())
    }

    /// The error of a write that needs more space than there is.
    pub(crate) fn full(&self) -> StoreError {
        let full = io::Error::from_raw_os_error(ENOSPC);
        self.at("write: only deletions are possible", sqlx::Error::Io(full))
    }

    /// `step` completes "cannot …".
    pub(super) fn at(&self, step: &'static str, source: impl Into<Arc<sqlx::Error>>) -> StoreError {
        let source = source.into();
        StoreError::Disk {
            path: self.0.to_string(),
            step,
            cure: cure(&source),
            source,
        }
    }
}

fn cure(error: &sqlx::Error) -> &'static str {
    match error {
        error if is_damage(error) => DAMAGED,
        sqlx::Error::Database(_) => cure_of_code(extended_code(error).unwrap_or_default()),
        sqlx::Error::Io(error) => cure_of_system(error),
        sqlx::Error::Migrate(_) => {
            "the file was written by another version: use that version, or move the file away"
        }
        sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
            "it has been shut down: restart the process"
        }
        sqlx::Error::Decode(error) | sqlx::Error::Encode(error) if error.is::<SealError>() => {
            "see the cause"
        }
        sqlx::Error::PoolTimedOut => "the disk does not keep up: check it, or lighten the load",
        _ => DAMAGED,
    }
}

/// Returns the cure of an error of the system.
pub(crate) fn cure_of_system(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "create its folder first",
        io::ErrorKind::PermissionDenied => {
            "give this user write permission on the file and its folder"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "mount its file system for writing; a service also needs it outside of ReadOnlyPaths"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space on its disk",
        io::ErrorKind::IsADirectory => "it is a folder: name a file",
        // EAGAIN: a thread cannot be started
        io::ErrorKind::WouldBlock => {
            "the limit of processes and threads is reached: raise it (TasksMax of the service, `ulimit -u`)"
        }
        io::ErrorKind::OutOfMemory => "the machine is out of memory: free some",
        _ => "check the disk",
    }
}

const DAMAGED: &str = "the file is damaged or no database: move it away and restart";

fn cure_of_code(extended: u32) -> &'static str {
    match extended & 0xff {
        // SQLITE_PERM, SQLITE_READONLY, SQLITE_CANTOPEN, SQLITE_AUTH
        3 | 8 | 14 | 23 => {
            "give this user write permission on the file and its folder, which must exist"
        }
        // SQLITE_BUSY, SQLITE_LOCKED
        5 | 6 => "another process holds the file: stop it",
        // SQLITE_NOMEM
        7 => "the machine is out of memory: free some",
        // SQLITE_IOERR_SHMSIZE: the index of the write-ahead log, which each process that opens the file makes beside it, has no space
        10 if extended == 4874 => "its disk is full: free some space",
        // SQLITE_IOERR
        10 => "the disk failed or is read-only: `dmesg` and `mount` show which",
        // SQLITE_FULL
        13 => "its disk is full: free some space",
        // SQLITE_TOOBIG
        18 => "the object is too large; reduce its size",
        _ => "see the cause",
    }
}
