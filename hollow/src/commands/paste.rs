//! Shell words that a person can paste into any directory.

use std::path::Path;

use cloudsim::kubeconfig::Entries;

/// Returns an absolute path, quoted if a shell would otherwise misread it.
pub(super) fn path(path: &Path) -> String {
    let absolute = std::path::absolute(path);
    quoted(&absolute.as_deref().unwrap_or(path).to_string_lossy())
}

/// Returns the shell word for this program.
pub(super) fn program() -> String {
    // A program that was replaced meanwhile does not exist any more.
    let program = std::env::current_exe()
        .ok()
        .filter(|program| program.exists());
    program.map_or_else(|| "cloudsim".to_owned(), |program| path(&program))
}

/// Returns the shell word for the agent: the program beside this one, as after a build, or else the one in the shell's PATH.
pub(super) fn agent() -> String {
    let beside = std::env::current_exe()
        .ok()
        .map(|program| program.with_file_name("edge-agent"));
    beside
        .filter(|agent| agent.exists())
        .map_or_else(|| "edge-agent".to_owned(), |agent| path(&agent))
}

/// Returns the options with which other commands of this program reach the cloud of these entries.
pub(super) fn access(entries: &Entries) -> String {
    let file = path(entries.file());
    match entries.is_current() {
        true => format!("--kubeconfig {file}"),
        false => format!(
            "--kubeconfig {file} --context {}",
            quoted(entries.context())
        ),
    }
}

/// Returns the lines that let kubectl reach the cloud of these entries.
pub(super) fn for_kubectl(entries: &Entries) -> Vec<String> {
    let mut lines = vec![format!("  export KUBECONFIG={}", path(entries.file()))];
    if !entries.is_current() {
        lines.push(format!(
            "  kubectl config use-context {}",
            quoted(entries.context())
        ));
    }
    lines
}

fn quoted(word: &str) -> String {
    // Quoting fails only for NUL bytes, which a path cannot contain.
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_read_otherwise_is_quoted() {
        assert_eq!(path(Path::new("/a/b.kubeconfig")), "/a/b.kubeconfig");
        let odd = "/my files/it's $HOME";
        assert_eq!(
            shlex::split(&path(Path::new(odd))),
            Some(vec![odd.to_owned()])
        );
        assert!(path(Path::new("here")).ends_with("/here"));
        assert!(Path::new(&program()).is_absolute());
    }
}
