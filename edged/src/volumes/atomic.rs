//! Writes the files of a volume atomically: a reader sees either all old or all new files. They are in a directory of their own,
//! to which the link `..data` points. This is the kubelet's layout, which programs watch.

use std::{
    collections::BTreeSet,
    fs::Permissions,
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use fs_err::{
    self as fs,
    os::unix::fs::{chown, symlink},
};

use super::{
    error::Error,
    payload::{File, Payload},
};

const DATA_DIR: &str = "..data";
const NEW_DATA_DIR: &str = "..data_tmp";
/// Mode of the volume's directory and of directories in it.
pub(super) const DIR_MODE: u32 = 0o755;
/// The set-group-id bit: new files in a directory belong to its group.
pub(super) const SET_GID: u32 = 0o2000;

/// Writes the files of `payload` to the volume at `target_dir`, unless they are there already.
pub(super) fn write(target_dir: &Path, payload: &Payload, group: Option<u32>) -> Result<(), Error> {
    fs::create_dir_all(target_dir)?;
    let data = target_dir.join(DATA_DIR);
    let old = fs::read_link(&data).ok();
    if old
        .as_ref()
        .is_some_and(|old| is_current(&target_dir.join(old), payload))
    {
        return link_names(target_dir, payload);
    }
    let name = format!("..{}", clock::uuid().simple());
    let dir = target_dir.join(&name);
    fs::create_dir(&dir)?;
    set_mode(&dir, DIR_MODE)?;
    for (path, file) in payload {
        let path = dir.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, &file.content)?;
        set_mode(&path, file.mode)?;
        if let Some(user) = file.user {
            set_owner(&path, user)?;
        }
    }
    if let Some(group) = group {
        set_group(target_dir, group, DIR_MODE)?;
        set_group_recursively(&dir, group)?;
    }
    let new = target_dir.join(NEW_DATA_DIR);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    symlink(&name, &new)?;
    fs::rename(&new, &data)?;
    link_names(target_dir, payload)?;
    remove_others(target_dir, &name)
}

/// Reports whether the volume has been written before.
pub(super) fn is_written(target_dir: &Path) -> bool {
    target_dir.join(DATA_DIR).is_dir()
}

/// Sets the permission bits, whatever the process's umask.
pub(super) fn set_mode(path: &Path, mode: u32) -> Result<(), Error> {
    Ok(fs::set_permissions(path, Permissions::from_mode(mode))?)
}

/// Sets the group of a directory, and the bit by which new files in it get the same group.
pub(super) fn set_group(dir: &Path, group: u32, mode: u32) -> Result<(), Error> {
    chown(dir, None, Some(group))?;
    // After the owner, because changing that clears the bit.
    set_mode(dir, mode | SET_GID)
}

/// Sets the owner of a file, if this program has permission.
fn set_owner(path: &Path, user: u32) -> Result<(), Error> {
    match chown(path, Some(user), None) {
        // without permission there are no containers of other users either
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        result => Ok(result?),
    }
}

/// Sets the group of the directory and all files in it.
fn set_group_recursively(dir: &Path, group: u32) -> Result<(), Error> {
    set_group(dir, group, DIR_MODE)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let (path, file_type) = (entry.path(), entry.file_type()?);
        if file_type.is_dir() {
            set_group_recursively(&path, group)?;
        } else {
            chown(&path, None, Some(group))?;
        }
    }
    Ok(())
}

/// Reports whether the directory has exactly the payload's files.
fn is_current(dir: &Path, payload: &Payload) -> bool {
    let same = |path: &str, file: &File| {
        let path = dir.join(path);
        let meta = fs::symlink_metadata(&path);
        meta.is_ok_and(|meta| {
            let mode = meta.permissions().mode() & 0o777;
            meta.is_file() && mode == file.mode && meta.len() == file.content.len() as u64
        }) && fs::read(&path).is_ok_and(|now| now == file.content)
    };
    payload.iter().all(|(path, file)| same(path, file))
        && count(dir).is_ok_and(|count| count == payload.len())
}

fn count(dir: &Path) -> io::Result<usize> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        sum += if entry.file_type()?.is_dir() {
            count(&entry.path())?
        } else {
            1
        };
    }
    Ok(sum)
}

/// Creates the visible names, which are links through `..data`, and removes those of files that are gone.
fn link_names(target_dir: &Path, payload: &Payload) -> Result<(), Error> {
    let wanted: BTreeSet<&str> = payload
        .keys()
        .filter_map(|path| path.split('/').next())
        .collect();
    for name in &wanted {
        let (link, target) = (target_dir.join(name), PathBuf::from(DATA_DIR).join(name));
        if fs::read_link(&link).is_ok_and(|now| now == target) {
            continue;
        }
        if fs::symlink_metadata(&link).is_ok() {
            fs::remove_file(&link)?;
        }
        symlink(&target, &link)?;
    }
    for_each_entry(target_dir, |name| {
        if name.starts_with("..") || wanted.contains(name) {
            return Ok(());
        }
        fs::remove_file(target_dir.join(name))
    })
}

/// Removes the directories of former contents.
fn remove_others(target_dir: &Path, current: &str) -> Result<(), Error> {
    for_each_entry(target_dir, |name| {
        if !name.starts_with("..") || name == DATA_DIR || name == current {
            return Ok(());
        }
        fs::remove_dir_all(target_dir.join(name))
    })
}

fn for_each_entry(
    target_dir: &Path,
    mut act: impl FnMut(&str) -> io::Result<()>,
) -> Result<(), Error> {
    for entry in fs::read_dir(target_dir)? {
        let entry = entry?;
        if let Some(name) = entry.file_name().to_str() {
            act(name)?;
        }
    }
    Ok(())
}
