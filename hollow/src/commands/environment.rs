//! Reads the kubeconfigs of `$KUBECONFIG` by kubectl's rules.

use std::{
    ffi::OsString,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use cloudsim::kubeconfig::Destination;
use kube::config::{Kubeconfig, KubeconfigError};
use limits::read_regular_file;
use wire::text::with_causes;

/// The largest kubeconfig, in bytes.
const MAX_KUBECONFIG_BYTES: u64 = 4 * 1024 * 1024;

/// Why a kubeconfig cannot be used. The text does not quote the file, which has credentials.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    /// The file does not exist.
    #[error("file {} does not exist", .0.display())]
    Missing(PathBuf),
    /// The file cannot be read.
    #[error("cannot read {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The file has another content.
    #[error("{} is not a kubeconfig: {why}", file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// There is no home directory.
    #[error("there is no home directory; set $HOME")]
    NoHome,
}

/// Returns the merged kubeconfigs of `$KUBECONFIG`; `None` if it names no file.
///
/// # Errors
/// A file is no kubeconfig, or none of them exists.
pub(super) fn read() -> Result<Option<Kubeconfig>, Unusable> {
    merge(&split_paths(std::env::var_os("KUBECONFIG")))
}

/// Returns the files of a value of `$KUBECONFIG`.
pub(super) fn split_paths(value: Option<OsString>) -> Vec<PathBuf> {
    value
        .map(|list| Destination::list(&list))
        .unwrap_or_default()
}

/// Merges the files that exist; `None` if there is no file.
pub(super) fn merge(files: &[PathBuf]) -> Result<Option<Kubeconfig>, Unusable> {
    let Some(first) = files.first() else {
        return Ok(None);
    };
    let mut existing = files.iter().filter(|file| file.exists()).peekable();
    if existing.peek().is_none() {
        // The error names the file that is missing.
        return read_file(first).map(Some);
    }
    let merged = existing.try_fold(Kubeconfig::default(), |all, file| {
        all.merge(read_file(file)?)
            .map_err(|error| content(file, &error))
    })?;
    Ok(Some(merged))
}

/// Reads one file. A current context without a name is none, as kubectl writes it.
///
/// # Errors
/// It is no kubeconfig, too large, or no regular file.
pub(super) fn read_file(file: &Path) -> Result<Kubeconfig, Unusable> {
    // The library that reads it follows the paths in it, and has no limit.
    read_regular_file(file, MAX_KUBECONFIG_BYTES).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Unusable::Missing(file.to_owned()),
        _ => Unusable::Read(file.to_owned(), error),
    })?;
    let mut read = Kubeconfig::read_from(file).map_err(|error| content(file, &error))?;
    read.current_context = read.current_context.filter(|current| !current.is_empty());
    Ok(read)
}

/// Returns the error of a file's content, without the lines of the file that the parser quotes.
fn content(file: &Path, error: &KubeconfigError) -> Unusable {
    let text = with_causes(error);
    let first = text.lines().next().unwrap_or_default();
    let why = first
        .trim_start_matches("failed to parse kubeconfig YAML: ")
        .trim_start_matches("error: ");
    Unusable::Content {
        file: file.to_owned(),
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_files_and_empty_current_contexts_of_a_list_do_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = ["a", "b", "c"]
            .map(|name| directory.path().join(name))
            .into();
        assert!(merge(&[]).unwrap().is_none());
        assert!(matches!(merge(&files), Err(Unusable::Missing(missing)) if missing == files[0]));
        std::fs::write(
            &files[1],
            "kind: Config\napiVersion: v1\ncurrent-context: \"\"\n",
        )
        .unwrap();
        let context = "contexts: [{name: x, context: {cluster: x, user: x}}]\ncurrent-context: x\n";
        std::fs::write(
            &files[2],
            format!("kind: Config\napiVersion: v1\n{context}"),
        )
        .unwrap();
        let read = merge(&files).unwrap().unwrap();
        assert_eq!(
            (read.current_context.as_deref(), read.contexts.len()),
            (Some("x"), 1)
        );
        std::fs::write(&files[0], "kind: [secret").unwrap();
        let damaged = merge(&files).unwrap_err().to_string();
        let expected = format!("{} is not a kubeconfig: line 1", files[0].display());
        assert!(
            damaged.starts_with(&expected) && !damaged.contains("secret"),
            "{damaged}"
        );
    }
}
