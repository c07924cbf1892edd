//! Files that are written atomically.

use std::{
    fs, io,
    io::Write,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

/// Replaces the file by `bytes` with this mode: writes a temporary file, flushes it to disk, and renames it.
///
/// # Errors
/// Those of the operating system; the file is unchanged then.
pub fn replace_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let temporary = path.with_extension("new");
    let replaced = write(&temporary, bytes, mode).and_then(|()| rename_file(&temporary, path));
    if replaced.is_err() {
        // as on a full disk: the first error counts
        let _ = fs::remove_file(&temporary);
    }
    replaced
}

/// Renames a file, which must be on disk; the new name is on disk as well when this returns.
///
/// # Errors
/// The file cannot be renamed, or the directory cannot be flushed.
pub fn rename_file(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    let directory = to.parent().filter(|path| !path.as_os_str().is_empty());
    fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// Writes a file to disk.
fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(path)?;
    file.write_all(bytes)?;
    // a leftover temporary file may have another mode
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_replacement_leaves_no_temporary_file() {
        let directory = tempfile::tempdir().unwrap();
        // a file does not replace a directory
        let path = directory.path().join("a/b");
        fs::create_dir_all(&path).unwrap();
        replace_file(&path, b"x", 0o600).unwrap_err();
        assert_eq!(fs::read_dir(directory.path().join("a")).unwrap().count(), 1);
    }

    #[test]
    fn a_replaced_file_has_the_mode_and_leaves_no_temporary_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("below/secret.key");
        for bytes in [b"one".as_slice(), b"2"] {
            replace_file(&path, bytes, 0o600).unwrap();
            assert_eq!(fs::read(&path).unwrap(), bytes);
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                0o600
            );
        }
        assert_eq!(
            fs::read_dir(directory.path().join("below"))
                .unwrap()
                .count(),
            1
        );
    }
}
