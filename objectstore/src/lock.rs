//! Ensures that only one program uses a database: an advisory lock on a file beside it, which the kernel releases when the program
//! ends.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use crate::sqlite::fault::cure_of_system;

/// The suffix of the lock's file, after the database's name.
const LOCK_FILE_SUFFIX: &str = ".lock";
/// The most bytes that are read of the lock's file; a process id has fewer digits.
const MAX_DIGITS: u64 = 20;

/// The lock of a database. It is released when this is dropped, or when the program ends in any way.
#[derive(Debug)]
pub struct StoreLock {
    file: File,
    path: PathBuf,
}

/// A program that holds the lock of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// Its process id, if it has written it.
    pub process: Option<u32>,
}

/// Why the lock was not obtained.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another program holds the lock.
    #[error(
        "{} is in use by {}; stop that program first, or configure another database",
        database.display(),
        who(*holder)
    )]
    Held {
        /// The database.
        database: PathBuf,
        /// The other program's process id, if it has written it.
        holder: Option<u32>,
    },
    /// The lock's file cannot be created or locked.
    #[error("cannot lock {}; {}", path.display(), cure_of_system(source))]
    File {
        /// The lock's file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

fn who(holder: Option<u32>) -> String {
    holder.map_or_else(
        || "another program".to_owned(),
        |pid| format!("process {pid}"),
    )
}

impl StoreLock {
    /// Takes the lock of the database at `database`, which need not exist yet; its directory must.
    ///
    /// # Errors
    /// Another program holds the lock, or the lock's file cannot be created.
    pub fn take(database: &Path) -> Result<Self, LockError> {
        let mut path = database.as_os_str().to_owned();
        path.push(LOCK_FILE_SUFFIX);
        let path = PathBuf::from(path);
        let failed = |source| LockError::File {
            path: path.clone(),
            source,
        };
        let options = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path);
        let mut file = options.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held {
                    database: database.to_owned(),
                    holder: holder(&mut file),
                });
            }
            // a file system without locks: nobody can be kept out, and nobody is
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // for people: the lock itself is the kernel's, also where a full disk does not take the number
        match file
            .set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()))
        {
            Err(error) if error.kind() == ErrorKind::StorageFull => {}
            written => written.map_err(failed)?,
        }
        Ok(Self { file, path })
    }

    /// Returns the program that holds the lock of the database at `database`; `None` if there is none, or if the lock's file cannot be
    /// read. No file is created or changed.
    pub fn holder(database: &Path) -> Option<LockHolder> {
        let mut path = database.as_os_str().to_owned();
        path.push(LOCK_FILE_SUFFIX);
        let mut file = File::open(path).ok()?;
        // a shared lock for this moment: an owner that starts just now tries again
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Some(LockHolder {
                process: holder(&mut file),
            }),
            Ok(()) | Err(TryLockError::Error(_)) => None,
        }
    }

    /// Removes the lock's file, when the database is removed, too.
    ///
    /// # Errors
    /// The system refuses.
    pub fn remove(self) -> io::Result<()> {
        std::fs::remove_file(&self.path)?;
        drop(self.file);
        Ok(())
    }
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(MAX_DIGITS).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_the_first_is_and_follows_when_it_has_gone() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("a.db");
        assert_eq!(StoreLock::holder(&database), None);
        let first = StoreLock::take(&database).unwrap();
        let process = Some(std::process::id());
        assert_eq!(StoreLock::holder(&database), Some(LockHolder { process }));
        let error = StoreLock::take(&database).unwrap_err();
        let (own, said) = (std::process::id(), error.to_string());
        assert!(
            matches!(error, LockError::Held { holder: Some(pid), .. } if pid == own),
            "{said}"
        );
        assert!(
            said.contains(&format!("process {own}")) && said.contains("a.db"),
            "{said}"
        );
        drop(first);
        assert_eq!(StoreLock::holder(&database), None);
        let second = StoreLock::take(&database).unwrap();
        second.remove().unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_is_missing_is_named() {
        let error = StoreLock::take(Path::new("/nowhere/at/all.db")).unwrap_err();
        assert!(
            error.to_string().contains("/nowhere/at/all.db.lock"),
            "{error}"
        );
    }
}
