//! The files that a simulated container sees: its mounts from the host, what it has written itself, and its log.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Component, Path, PathBuf},
};

use wire::cri::Mount;

pub(super) use self::{
    containers::ContainerFiles,
    view::{Files, Kind, Stat},
    written::Shared,
};

mod containers;
mod links;
#[cfg(test)]
mod tests;
mod view;
mod written;

/// The most bytes that are read of a file. A ConfigMap or Secret is limited to 1 MiB: more is not needed to see what was mounted.
const MAX_READ: u64 = 1 << 20;

/// Reads a file as the container sees it. Neither `..` nor a symbolic link leads out of the mount.
fn read(mounts: &[Mount], path: &str) -> io::Result<Vec<u8>> {
    let target = locate(mounts, path)?;
    // Opening a pipe or a device could block.
    if !fs::metadata(&target)?.is_file() {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    let mut content = Vec::new();
    File::open(&target)?
        .take(MAX_READ + 1)
        .read_to_end(&mut content)?;
    if content.len() as u64 > MAX_READ {
        return Err(io::Error::new(ErrorKind::FileTooLarge, "larger than 1 MiB"));
    }
    Ok(content)
}

/// Returns the deepest mount that covers a path: it hides the others.
fn covering<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let covering = mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.container_path));
    covering.max_by_key(|mount| Path::new(&mount.container_path).components().count())
}

/// Returns where on the host a path of the container is.
fn locate(mounts: &[Mount], path: &str) -> io::Result<PathBuf> {
    let path = Path::new(path);
    if !path.is_absolute() || !is_plain(path) {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "only absolute paths without `..` are simulated",
        ));
    }
    let mount = covering(mounts, path).ok_or(ErrorKind::NotFound)?;
    let root = fs::canonicalize(&mount.host_path)?;
    let inside = path
        .strip_prefix(&mount.container_path)
        .unwrap_or(Path::new(""));
    let target = if inside.as_os_str().is_empty() {
        root.clone()
    } else {
        fs::canonicalize(root.join(inside))?
    };
    if !target.starts_with(&root) {
        return Err(io::Error::new(
            ErrorKind::PermissionDenied,
            "a link leads out of the mount",
        ));
    }
    Ok(target)
}

/// Returns the path of a container's log, `None` if the client wants no log. Neither part may lead elsewhere by `..`.
pub(super) fn log_path(directory: &str, log: &str) -> Result<Option<PathBuf>, &'static str> {
    if directory.is_empty() || log.is_empty() {
        return Ok(None);
    }
    let (directory, log) = (Path::new(directory), Path::new(log));
    if !directory.is_absolute() || !is_plain(directory) {
        return Err("log_directory must be absolute and without `..`");
    }
    if log.is_absolute() || !is_plain(log) {
        return Err("log_path must be relative and without `..`");
    }
    Ok(Some(directory.join(log)))
}

/// Appends lines in the format of CRI; creates the file, but like containerd not its directory.
pub(super) fn log(path: &Path, lines: &[String], now: jiff::Timestamp) -> io::Result<()> {
    let text: String = lines
        .iter()
        .map(|line| format!("{now:.9} stdout F {line}\n"))
        .collect();
    append(path, text.as_bytes())
}

/// Appends one line that a program has printed; a line without a newline goes on in the next record.
pub(super) fn log_line(
    path: &Path,
    stream: &str,
    line: &[u8],
    now: jiff::Timestamp,
) -> io::Result<()> {
    let (tag, line) = line
        .strip_suffix(b"\n")
        .map_or(("P", line), |line| ("F", line));
    let mut record = format!("{now:.9} {stream} {tag} ").into_bytes();
    record.extend_from_slice(line);
    record.push(b'\n');
    append(path, &record)
}

fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o640)
        .open(path)?
        .write_all(bytes)
}

fn is_plain(path: &Path) -> bool {
    path.components().all(|part| {
        matches!(
            part,
            Component::RootDir | Component::Normal(_) | Component::CurDir
        )
    })
}
