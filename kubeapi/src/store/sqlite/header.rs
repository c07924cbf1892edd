//! The heads of a file and its log, read by hand: SQLite takes some that are damaged for those of a file that it may only read, or
//! for a file that it cannot open, which nothing else tells from a lack of permission. Where the making of the file was cut off, its
//! journal brings it back first.
//!
//! Source: SQLite, "Database File Format" (1.3 The Database Header, 4.1 WAL File Format).

use std::{
    io::Read,
    path::{Path, PathBuf},
};

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const HEAD: usize = 100;
const LOG_HEAD: usize = 32;
/// The two magic numbers of a log, and the only version of its format.
const LOG_MAGIC: [u32; 2] = [0x377f_0682, 0x377f_0683];
const LOG_VERSION: u32 = 3_007_000;

/// Whether one of the heads is none.
pub(super) async fn is_damaged(path: &Path) -> bool {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let beside = |suffix: &str| {
            let mut name = path.clone().into_os_string();
            name.push(suffix);
            PathBuf::from(name)
        };
        let is_to_be_brought_back = !beginning(&beside("-journal"), 1).is_empty();
        !is_to_be_brought_back
            && (is_no_head(&beginning(&path, HEAD)) || is_no_log(&beginning(&beside("-wal"), LOG_HEAD)))
    });
    read.await.unwrap_or(false)
}

/// The first bytes of a file, fewer where it has fewer.
fn beginning(path: &Path, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length);
    if let Ok(file) = std::fs::File::open(path) {
        // what cannot be read is not judged
        let _ = file.take(length as u64).read_to_end(&mut bytes);
    }
    bytes
}

fn is_no_head(bytes: &[u8]) -> bool {
    if bytes.is_empty() {
        return false;
    }
    let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
    let word = |at: usize| u32::from_be_bytes([byte(at), byte(at + 1), byte(at + 2), byte(at + 3)]);
    bytes.len() < HEAD
        || !bytes.starts_with(MAGIC)
        || !(1..=2).contains(&byte(18))
        || !(1..=2).contains(&byte(19))
        || word(44) > 4
        || word(56) > 3
}

fn is_no_log(bytes: &[u8]) -> bool {
    let word = |at: usize| {
        bytes.get(at..at + 4).map(|word| word.iter().fold(0, |all, byte| all << 8 | u32::from(*byte)))
    };
    word(0).is_some_and(|magic| LOG_MAGIC.contains(&magic)) && word(4) != Some(LOG_VERSION)
}
