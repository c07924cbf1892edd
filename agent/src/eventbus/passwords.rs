//! The users of the internal broker: a file with `user:password` in each line, readable by its owner only.

use std::{
    fs::{File, Metadata},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::config::Secret;

/// The largest file that is read, bytes: tens of thousands of users.
const MAX_BYTES: u64 = 1 << 20;
/// The permissions of other users.
const OTHER_USERS_MODE: u32 = 0o077;

/// Why the file of users cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// The file cannot be opened or read.
    #[error(
        "cannot read {}; check modules.eventBus.internalAccess.passwordFile",
        path.display()
    )]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Other users may read or write it.
    #[error("{} is readable by other users; set its mode to 0600", .0.display())]
    Accessible(PathBuf),
    /// The file is too large.
    #[error("{} has more than {most} bytes", .0.display(), most = MAX_BYTES)]
    TooLarge(PathBuf),
    /// A line has no user.
    #[error("line {line} of {} is not user:password", path.display())]
    Line {
        /// The path of the file.
        path: PathBuf,
        /// The number of the line, from 1 on.
        line: usize,
    },
}

/// Reads users and passwords. Empty lines and lines that begin with `#` are ignored.
pub(super) fn read(path: &Path) -> Result<Vec<(String, Secret)>, PasswordError> {
    let failed = |source| PasswordError::File {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    if is_open(&file.metadata().map_err(failed)?) {
        return Err(PasswordError::Accessible(path.to_owned()));
    }
    let mut text = String::new();
    file.take(MAX_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(PasswordError::TooLarge(path.to_owned()));
    }
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let users = lines.map(|(number, line)| match line.split_once(':') {
        Some((user, password)) if !user.is_empty() && !password.is_empty() => {
            Ok((user.to_owned(), Secret::new(password)))
        }
        _ => Err(PasswordError::Line {
            path: path.to_owned(),
            line: number + 1,
        }),
    });
    users.collect()
}

fn is_open(file: &Metadata) -> bool {
    file.mode() & OTHER_USERS_MODE != 0
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("users");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (directory, path)
    }

    #[test]
    fn users_are_read() {
        let (_directory, path) = file("# devices\nd1:secret\n\nops:a:b\n", 0o600);
        let users = read(&path).unwrap();
        let users: Vec<_> = users
            .iter()
            .map(|(user, password)| (user.as_str(), password.expose()))
            .collect();
        assert_eq!(users, [("d1", "secret"), ("ops", "a:b")]);
    }

    #[test]
    fn errors_do_not_contain_the_password() {
        for (text, mode, why) in [
            ("d1:secret", 0o640, "mode to 0600"),
            ("d1:secret\nsecret", 0o600, "line 2 of"),
            (":secret", 0o600, "line 1 of"),
            ("d1:", 0o600, "line 1 of"),
        ] {
            let (_directory, path) = file(text, mode);
            let told = read(&path).unwrap_err().to_string();
            assert!(told.contains(why) && !told.contains("secret"), "{told}");
        }
        let (_directory, path) = file(&"x".repeat(MAX_BYTES as usize + 1), 0o600);
        assert!(matches!(read(&path), Err(PasswordError::TooLarge(_))));
        assert!(matches!(
            read(Path::new("/nowhere/users")),
            Err(PasswordError::File { .. })
        ));
    }
}
