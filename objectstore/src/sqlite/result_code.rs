//! What SQLite's result codes mean: <https://sqlite.org/rescode.html>.

use std::io;

/// Whether a single commit can be the reason why a transaction of several failed.
pub(super) fn may_be_of_one(error: &sqlx::Error) -> bool {
    // SQLITE_NOMEM, SQLITE_FULL, SQLITE_TOOBIG
    matches!(code(error), Some(7 | 13 | 18))
}

/// Whether the disk has no space left.
pub(super) fn is_full(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(error) => error.kind() == io::ErrorKind::StorageFull,
        // SQLITE_FULL, SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_WRITE
        error => code(error) == Some(13) || matches!(extended_code(error), Some(4874 | 778)),
    }
}

/// Whether the file itself is what failed, and nothing but another file helps.
pub(crate) fn is_damage(error: &sqlx::Error) -> bool {
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
pub(super) fn code(error: &sqlx::Error) -> Option<u32> {
    Some(extended_code(error)? & 0xff)
}

/// SQLite's extended result code.
pub(super) fn extended_code(error: &sqlx::Error) -> Option<u32> {
    error.as_database_error()?.code()?.parse().ok()
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
