//! `hostPath` volumes: checks that the path has the type that the pod requires.

use std::{
    os::unix::fs::FileTypeExt,
    path::{Component, Path, PathBuf},
};

use fs_err as fs;
use k8s_openapi::api::core::v1::HostPathVolumeSource;

use super::{atomic, error::Error};

/// The permissions of a directory that is created.
pub(super) const MODE: u32 = 0o755;

/// Checks the path's type, creating the path if the type permits.
pub(super) fn check(source: &HostPathVolumeSource) -> Result<(), Error> {
    check_with_mode(source, MODE)
}

/// Checks the path's type, creating the path if the type permits, a directory with these permissions.
pub(super) fn check_with_mode(source: &HostPathVolumeSource, mode: u32) -> Result<(), Error> {
    let path = PathBuf::from(&source.path);
    if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
        return Err(Error::path_escape(&source.path));
    }
    let kind = source.type_.as_deref().unwrap_or_default();
    let meta = fs::metadata(&path);
    match kind {
        "" => return Ok(()),
        "DirectoryOrCreate" if meta.is_err() => return make_dir(&path, mode),
        "FileOrCreate" if meta.is_err() => return make_file(&path),
        _ => {}
    }
    let is = meta.is_ok_and(|meta| {
        let file_type = meta.file_type();
        match kind {
            "Directory" | "DirectoryOrCreate" => meta.is_dir(),
            "File" | "FileOrCreate" => meta.is_file(),
            "Socket" => file_type.is_socket(),
            "CharDevice" => file_type.is_char_device(),
            "BlockDevice" => file_type.is_block_device(),
            _ => false,
        }
    });
    let name = kind.strip_suffix("OrCreate").unwrap_or(kind);
    if is {
        Ok(())
    } else {
        Err(Error::HostPathType(path, name.to_lowercase()))
    }
}

fn make_dir(path: &Path, mode: u32) -> Result<(), Error> {
    fs::create_dir_all(path)?;
    atomic::set_mode(path, mode)
}

fn make_file(path: &Path) -> Result<(), Error> {
    fs::File::create_new(path)?;
    atomic::set_mode(path, 0o644)
}
