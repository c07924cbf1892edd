//! Files that are written atomically, and directories that are missing.

use std::path::{Path, PathBuf};

pub(crate) use componentbase::{rename_file as rename, replace_file as replace};

/// Returns the outermost directory of this path that does not exist; `None` if the directory exists.
pub(crate) fn missing_directory(path: &Path) -> Option<PathBuf> {
    let missing = path
        .ancestors()
        .take_while(|one| !one.as_os_str().is_empty() && !one.exists());
    missing.last().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_outermost_missing_directory_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/c");
        assert_eq!(missing_directory(&path), Some(directory.path().join("a")));
        fs::create_dir_all(&path).unwrap();
        assert_eq!(missing_directory(&path), None);
        assert_eq!(
            missing_directory(Path::new("relative-and-missing")),
            Some("relative-and-missing".into())
        );
    }
}
