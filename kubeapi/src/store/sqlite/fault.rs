//! From what the database said to what its owner can do about it.

use std::{io, path::Path, sync::Arc};

use super::SealError;
use crate::store::StoreError;

/// Makes errors that name the file.
#[derive(Clone, Debug)]
pub(super) struct Fault(Arc<str>);

impl Fault {
    pub(super) fn of(path: &Path) -> Self {
        Self(path.display().to_string().into())
    }

    /// `step` completes "cannot …".
    pub(super) fn at(&self, step: &'static str, source: impl Into<Arc<sqlx::Error>>) -> StoreError {
        let source = source.into();
        StoreError::Disk { path: self.0.to_string(), step, cure: cure(&source), source }
    }
}

/// Whether a single commit can be the reason why a transaction of several failed.
pub(super) fn may_be_of_one(error: &sqlx::Error) -> bool {
    // SQLITE_NOMEM, SQLITE_FULL, SQLITE_TOOBIG
    matches!(code(error), Some(7 | 13 | 18))
}

/// Whether the file itself is what failed, and nothing but another file helps.
pub(in crate::store) fn is_damage(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(_) => is_damage_code(extended_code(error).unwrap_or_default()),
        // the verdicts of our own checks
        sqlx::Error::Protocol(_) | sqlx::Error::RowNotFound => true,
        // a column of another type than its table says
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::ColumnNotFound(_) => true,
        _ => false,
    }
}

fn is_damage_code(extended: u32) -> bool {
    match extended & 0xff {
        // SQLITE_CORRUPT with all its kinds, SQLITE_FORMAT, SQLITE_NOTADB
        11 | 24 | 26 => true,
        // SQLITE_ERROR: the statements are always the same, so that it is the tables that are not ours ("unsupported file format",
        // "malformed database schema", "no such column", "table … already exists")
        1 => true,
        // SQLITE_CANTOPEN_DIRTYWAL, SQLITE_IOERR_SHORT_READ, SQLITE_IOERR_DATA, SQLITE_IOERR_CORRUPTFS
        _ => matches!(extended, 1294 | 522 | 8202 | 8458),
    }
}

/// SQLite's result code; an extended code has its primary one in the low byte.
fn code(error: &sqlx::Error) -> Option<u32> {
    Some(extended_code(error)? & 0xff)
}

fn extended_code(error: &sqlx::Error) -> Option<u32> {
    error.as_database_error()?.code()?.parse().ok()
}

fn cure(error: &sqlx::Error) -> &'static str {
    match error {
        error if is_damage(error) => DAMAGED,
        sqlx::Error::Database(_) => cure_of_code(code(error).unwrap_or_default()),
        sqlx::Error::Io(error) => match error.kind() {
            io::ErrorKind::NotFound => "create its folder first",
            io::ErrorKind::PermissionDenied => "give this user write permission on the file and its folder",
            io::ErrorKind::ReadOnlyFilesystem => "mount its file system for writing",
            io::ErrorKind::StorageFull => "free some space on its disk",
            io::ErrorKind::IsADirectory => "it is a folder: name a file",
            _ => "check the disk",
        },
        sqlx::Error::Migrate(_) => {
            "the file was written by another version: use that version, or move the file away"
        }
        sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => "it has been shut down: restart the process",
        sqlx::Error::Decode(error) | sqlx::Error::Encode(error) if error.is::<SealError>() => "see the cause",
        sqlx::Error::PoolTimedOut => "the disk does not keep up: check it, or lighten the load",
        _ => DAMAGED,
    }
}

const DAMAGED: &str = "the file is damaged or no database: move it away and restart";

fn cure_of_code(code: u32) -> &'static str {
    match code {
        // SQLITE_PERM, SQLITE_READONLY, SQLITE_CANTOPEN, SQLITE_AUTH
        3 | 8 | 14 | 23 => "give this user write permission on the file and its folder, which must exist",
        // SQLITE_BUSY, SQLITE_LOCKED
        5 | 6 => "another process holds the file: stop it",
        // SQLITE_NOMEM
        7 => "the machine is out of memory: free some",
        // SQLITE_IOERR
        10 => "the disk failed: check it",
        // SQLITE_FULL
        13 => "the disk is full: free some space",
        // SQLITE_TOOBIG
        18 => "the object is too big: make it smaller",
        _ => "see the cause",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_mean_damage() {
        let damage = [
            ("SQLITE_ERROR", 1),
            ("SQLITE_CORRUPT", 11),
            ("SQLITE_CORRUPT_VTAB", 267),
            ("SQLITE_CORRUPT_SEQUENCE", 523),
            ("SQLITE_CORRUPT_INDEX", 779),
            ("SQLITE_FORMAT", 24),
            ("SQLITE_NOTADB", 26),
            ("SQLITE_IOERR_SHORT_READ", 522),
            ("SQLITE_IOERR_DATA", 8202),
            ("SQLITE_IOERR_CORRUPTFS", 8458),
            ("SQLITE_CANTOPEN_DIRTYWAL", 1294),
        ];
        // a person can help, or the disk
        let other = [
            ("SQLITE_BUSY", 5),
            ("SQLITE_NOMEM", 7),
            ("SQLITE_READONLY", 8),
            ("SQLITE_READONLY_DIRECTORY", 1544),
            ("SQLITE_IOERR", 10),
            ("SQLITE_IOERR_READ", 266),
            ("SQLITE_IOERR_FSYNC", 1034),
            ("SQLITE_FULL", 13),
            ("SQLITE_CANTOPEN", 14),
            ("SQLITE_CANTOPEN_ISDIR", 526),
            ("SQLITE_CANTOPEN_FULLPATH", 782),
            ("SQLITE_AUTH", 23),
        ];
        for (name, code) in damage {
            assert!(is_damage_code(code), "{name}");
        }
        for (name, code) in other {
            assert!(!is_damage_code(code), "{name}");
        }
    }
}
