//! Files that only their owner can read.

use std::{
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

/// Writes a file that only its owner can read, even if it replaces one that others could read.
pub(super) async fn write(path: &Path, text: &str) -> io::Result<()> {
    let (path, text) = (path.to_owned(), text.to_owned());
    let write = move || {
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())
    };
    let written = clock::spawn_blocking(write).await;
    written.map_err(io::Error::other)?
}
