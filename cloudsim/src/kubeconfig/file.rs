//! Kubeconfigs on the disk: locked as by kubectl, read with a limit, replaced atomically.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use super::{KubeconfigError, document::Document};

/// The largest kubeconfig, in bytes.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// How often a lock that another program holds is tried, and how long between.
const LOCK_ATTEMPTS: u32 = 50;
const LOCK_INTERVAL: Duration = Duration::from_millis(100);

/// The number of symbolic links that are followed, as by the kernel.
const MAX_LINKS: usize = 40;

/// Reads a kubeconfig; `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<Document>, KubeconfigError> {
    let failed = |source| KubeconfigError::Read {
        path: path.to_owned(),
        source,
    };
    let other = |why| KubeconfigError::NotKubeconfig {
        path: path.to_owned(),
        why,
    };
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        // Opening a pipe would block.
        Ok(_) => return Err(other("it is no regular file".to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_BYTES) {
        return Err(other(format!("it is larger than {MAX_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| other("it is no text".to_owned()))?;
    Document::parse(&text).map(Some).map_err(other)
}

/// Replaces the file, or that which a symbolic link names, atomically. Mode and owner stay; a new file is for its owner only.
pub(super) fn write(path: &Path, text: &str) -> Result<(), KubeconfigError> {
    let failed = |source| KubeconfigError::Write {
        path: path.to_owned(),
        source,
    };
    let target = follow_links(path).map_err(failed)?;
    let mut temporary = target.clone().into_os_string();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let written =
        write_new(&temporary, &target, text).and_then(|()| fs::rename(&temporary, &target));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(failed)
}

/// Writes the new file, which others cannot read before it has the mode of the old one.
fn write_new(temporary: &Path, old: &Path, text: &str) -> io::Result<()> {
    // created anew, since a file that was left there could have another mode
    match fs::remove_file(temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(temporary)?;
    file.write_all(text.as_bytes())?;
    match fs::metadata(old) {
        Ok(old) => {
            let new = file.metadata()?;
            if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
                fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
            file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    file.sync_all()
}

/// Returns the file at the end of symbolic links, which need not exist.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&target) {
            Ok(next) => target = target.parent().unwrap_or(Path::new("")).join(next),
            // not a link, or not there
            Err(_) => return Ok(target),
        }
    }
    Err(io::Error::from(ErrorKind::InvalidInput))
}

/// Creates the directory of a file that will be written.
pub(super) fn create_directory(path: &Path) -> Result<(), KubeconfigError> {
    let failed = |source| KubeconfigError::Write {
        path: path.to_owned(),
        source,
    };
    match path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        Some(parent) => fs::create_dir_all(parent).map_err(failed),
        None => Ok(()),
    }
}

/// The locks of files, which kubectl respects: `FILE.lock` exists while the file is changed.
#[derive(Debug, Default)]
pub(super) struct Locked(Vec<PathBuf>);

impl Locked {
    /// Locks all files whose directory exists, in the order of their names as kubectl.
    pub(super) fn take(paths: &[PathBuf]) -> Result<Self, KubeconfigError> {
        Self::try_take(paths, LOCK_ATTEMPTS)
    }

    /// Locks all files, each with this number of attempts.
    pub(super) fn try_take(paths: &[PathBuf], attempts: u32) -> Result<Self, KubeconfigError> {
        let mut sorted: Vec<&PathBuf> = paths.iter().collect();
        sorted.sort();
        let mut locked = Self::default();
        for path in sorted {
            locked.lock(path, attempts)?;
        }
        Ok(locked)
    }

    fn lock(&mut self, path: &Path, attempts: u32) -> Result<(), KubeconfigError> {
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        for attempt in 1.. {
            match OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&lock)
            {
                Ok(_) => break,
                // There is no file to lock, either.
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(KubeconfigError::Write {
                        path: path.to_owned(),
                        source: error,
                    });
                }
                Err(_) if attempt >= attempts => {
                    return Err(KubeconfigError::Locked {
                        path: path.to_owned(),
                    });
                }
                Err(_) => thread::sleep(LOCK_INTERVAL),
            }
        }
        self.0.push(lock);
        Ok(())
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        for lock in &self.0 {
            let _ = fs::remove_file(lock);
        }
    }
}
