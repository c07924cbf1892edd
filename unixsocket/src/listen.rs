//! Listens on the path of a unix socket.

use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::UnixStream,
    },
    path::Path,
};

use tokio::net::UnixListener;

/// Listens at `path`, whose file gets these permissions, and makes the directories above it. The socket of a program that has ended is
/// replaced.
///
/// # Errors
/// [`io::ErrorKind::AddrInUse`] if a program serves the socket, [`io::ErrorKind::AlreadyExists`] if the file is no socket, and those of the
/// operating system.
pub fn listen(path: &Path, mode: u32) -> io::Result<UnixListener> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(_) if UnixStream::connect(path).is_ok() => return Err(io::ErrorKind::AddrInUse.into()),
        Ok(_) => fs::remove_file(path)?,
        Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    if let Err(error) = fs::set_permissions(path, fs::Permissions::from_mode(mode)) {
        // the file would be open to others than it should be
        let _ = fs::remove_file(path);
        return Err(error);
    }
    Ok(listener)
}
