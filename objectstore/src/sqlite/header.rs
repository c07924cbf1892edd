//! Checks the headers of a database file and its log directly: SQLite reports some damaged headers as a read-only file, or as one that
//! cannot be opened, which looks like a lack of permission. Where the creation of the file was interrupted, its journal restores it
//! first.
//!
//! Source: SQLite, "Database File Format" (1.3 The Database Header, 4.1 WAL File Format).

use std::{
    io::Read,
    path::{Path, PathBuf},
};

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const FILE_HEADER_BYTES: usize = 100;
const WAL_HEADER_BYTES: usize = 32;
/// The two magic numbers of a log, and the only version of its format.
const WAL_MAGIC: [u32; 2] = [0x377f_0682, 0x377f_0683];
const WAL_VERSION: u32 = 3_007_000;

/// Reports whether one of the headers is invalid.
pub(super) async fn is_damaged(path: &Path) -> bool {
    let path = path.to_owned();
    let read = clock::spawn_blocking(move || {
        let beside = |suffix: &str| {
            let mut name = path.clone().into_os_string();
            name.push(suffix);
            PathBuf::from(name)
        };
        let is_to_be_brought_back = !read_prefix(&beside("-journal"), 1).is_empty();
        !is_to_be_brought_back
            && (is_invalid_file_header(&read_prefix(&path, FILE_HEADER_BYTES))
                || is_invalid_wal_header(&read_prefix(&beside("-wal"), WAL_HEADER_BYTES)))
    });
    read.await.unwrap_or(false)
}

/// Returns the first bytes of a file, fewer where it is shorter.
fn read_prefix(path: &Path, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length);
    if let Ok(file) = std::fs::File::open(path) {
        // what cannot be read is not judged
        let _ = file.take(length as u64).read_to_end(&mut bytes);
    }
    bytes
}

fn is_invalid_file_header(bytes: &[u8]) -> bool {
    if bytes.is_empty() {
        return false;
    }
    let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
    let word = |at: usize| u32::from_be_bytes([byte(at), byte(at + 1), byte(at + 2), byte(at + 3)]);
    bytes.len() < FILE_HEADER_BYTES
        || !bytes.starts_with(MAGIC)
        || !(1..=2).contains(&byte(18))
        || !(1..=2).contains(&byte(19))
        || word(44) > 4
        || word(56) > 3
}

fn is_invalid_wal_header(bytes: &[u8]) -> bool {
    let word = |at: usize| {
        bytes
            .get(at..at + 4)
            .map(|word| word.iter().fold(0, |all, byte| all << 8 | u32::from(*byte)))
    };
    word(0).is_some_and(|magic| WAL_MAGIC.contains(&magic)) && word(4) != Some(WAL_VERSION)
}
