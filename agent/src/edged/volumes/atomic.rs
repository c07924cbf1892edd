//! Writes the files of a volume so that a reader sees all of the old ones or all of the new ones: they are in a directory of
//! their own, and the link `..data` says which one counts. The kubelet's layout, which programs watch for.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
};

use super::{
    error::Error,
    payload::{File, Payload},
};

const DATA: &str = "..data";
const DATA_NEW: &str = "..data_tmp";
/// Of the volume itself, and of directories in it.
pub(super) const DIR_MODE: u32 = 0o755;
/// What is made in a directory with this bit belongs to its group.
pub(super) const SET_GID: u32 = 0o2000;

/// Makes the files of the volume at `place` what `payload` says; does nothing when they are.
pub(super) fn write(place: &Path, payload: &Payload, group: Option<u32>) -> Result<(), Error> {
    fs::create_dir_all(place).map_err(Error::io(place))?;
    let data = place.join(DATA);
    let old = fs::read_link(&data).ok();
    if old.as_ref().is_some_and(|old| is_current(&place.join(old), payload)) {
        return link_names(place, payload);
    }
    let name = format!("..{}", uuid::Uuid::new_v4().simple());
    let dir = place.join(&name);
    fs::create_dir(&dir).map_err(Error::io(&dir))?;
    set_mode(&dir, DIR_MODE)?;
    for (path, file) in payload {
        let path = dir.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(Error::io(parent))?;
        }
        fs::write(&path, &file.content).map_err(Error::io(&path))?;
        set_mode(&path, file.mode)?;
        if let Some(user) = file.user {
            give_to(&path, user)?;
        }
    }
    if let Some(group) = group {
        give(place, group, DIR_MODE)?;
        give_all(&dir, group)?;
    }
    let new = place.join(DATA_NEW);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::io(new)(error)),
        _ => {}
    }
    symlink(&name, &new).map_err(Error::io(&new))?;
    fs::rename(&new, &data).map_err(Error::io(&data))?;
    link_names(place, payload)?;
    remove_others(place, &name)
}

/// Whether the volume has been written before.
pub(super) fn is_written(place: &Path) -> bool {
    place.join(DATA).is_dir()
}

/// Sets the permission bits, whatever the process's umask.
pub(super) fn set_mode(path: &Path, mode: u32) -> Result<(), Error> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(Error::io(path))
}

/// Gives the directory to a group, to which everything that is made in it belongs from then on.
pub(super) fn give(dir: &Path, group: u32, mode: u32) -> Result<(), Error> {
    chown(dir, None, Some(group)).map_err(Error::io(dir))?;
    // After the owner: changing that takes the bit away.
    set_mode(dir, mode | SET_GID)
}

/// Gives the file to a user, where this program may.
fn give_to(path: &Path, user: u32) -> Result<(), Error> {
    match chown(path, Some(user), None) {
        // nor are there containers of others then
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        given => given.map_err(Error::io(path)),
    }
}

/// Gives the directory and all that is in it to a group.
fn give_all(dir: &Path, group: u32) -> Result<(), Error> {
    give(dir, group, DIR_MODE)?;
    for entry in fs::read_dir(dir).map_err(Error::io(dir))? {
        let entry = entry.map_err(Error::io(dir))?;
        let (path, file_type) = (entry.path(), entry.file_type().map_err(Error::io(dir))?);
        if file_type.is_dir() {
            give_all(&path, group)?;
        } else {
            chown(&path, None, Some(group)).map_err(Error::io(&path))?;
        }
    }
    Ok(())
}

/// Whether the directory has exactly the payload's files.
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
        sum += if entry.file_type()?.is_dir() { count(&entry.path())? } else { 1 };
    }
    Ok(sum)
}

/// The names that users see are links through `..data`; those of files that are gone are removed.
fn link_names(place: &Path, payload: &Payload) -> Result<(), Error> {
    let wanted: BTreeSet<&str> = payload.keys().filter_map(|path| path.split('/').next()).collect();
    for name in &wanted {
        let (link, target) = (place.join(name), PathBuf::from(DATA).join(name));
        if fs::read_link(&link).is_ok_and(|now| now == target) {
            continue;
        }
        if fs::symlink_metadata(&link).is_ok() {
            fs::remove_file(&link).map_err(Error::io(&link))?;
        }
        symlink(&target, &link).map_err(Error::io(&link))?;
    }
    each(place, |name| {
        if name.starts_with("..") || wanted.contains(name) {
            return Ok(());
        }
        fs::remove_file(place.join(name))
    })
}

/// Removes the directories of former contents.
fn remove_others(place: &Path, current: &str) -> Result<(), Error> {
    each(place, |name| {
        if !name.starts_with("..") || name == DATA || name == current {
            return Ok(());
        }
        fs::remove_dir_all(place.join(name))
    })
}

fn each(place: &Path, mut act: impl FnMut(&str) -> io::Result<()>) -> Result<(), Error> {
    for entry in fs::read_dir(place).map_err(Error::io(place))? {
        let entry = entry.map_err(Error::io(place))?;
        if let Some(name) = entry.file_name().to_str() {
            act(name).map_err(Error::io(entry.path()))?;
        }
    }
    Ok(())
}
