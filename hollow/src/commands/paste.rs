//! Shell words that a person can paste into any directory.

use std::path::{Path, PathBuf};

use cloudsim::kubeconfig::Entries;

/// Returns an absolute path, quoted if a shell would otherwise misread it.
pub(super) fn path(path: &Path) -> String {
    let absolute = std::path::absolute(path);
    quote(&absolute.as_deref().unwrap_or(path).to_string_lossy())
}

/// Returns the shell word for this program.
pub(super) fn program() -> String {
    word("cloudsim", std::env::current_exe().ok())
}

/// Returns the shell word for the agent: the program beside this one, as after a build, or else the one in the shell's PATH.
pub(super) fn agent() -> String {
    let beside = std::env::current_exe()
        .ok()
        .map(|program| program.with_file_name("edge-agent"));
    word("edge-agent", beside)
}

/// Returns the shell word for a program: its name if the shell finds it under this name, or else its path.
fn word(name: &str, program: Option<PathBuf>) -> String {
    // A program that was replaced meanwhile does not exist any more.
    let Some(program) = program.filter(|program| program.exists()) else {
        return name.to_owned();
    };
    let search = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&search).map(|directory| directory.join(name));
    let found = found.find(|candidate| candidate.is_file());
    let is_found =
        found.is_some_and(|found| found.canonicalize().ok() == program.canonicalize().ok());
    if is_found {
        name.to_owned()
    } else {
        path(&program)
    }
}

/// Returns the options with which other commands of this program reach the cloud of these entries.
pub(super) fn access(entries: &Entries) -> String {
    let file = path(entries.file());
    match entries.is_current() {
        true => format!("--kubeconfig {file}"),
        false => format!("--kubeconfig {file} --context {}", quote(entries.context())),
    }
}

/// Returns the lines that let kubectl reach the cloud of these entries.
pub(super) fn for_kubectl(entries: &Entries) -> Vec<String> {
    let mut lines = vec![format!("export KUBECONFIG={}", path(entries.file()))];
    if !entries.is_current() {
        lines.push(format!(
            "kubectl config use-context {}",
            quote(entries.context())
        ));
    }
    lines
}

fn quote(word: &str) -> String {
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
        let own = std::env::current_exe().unwrap();
        assert_eq!(word("absent", Some(own.clone())), path(&own));
        assert_eq!(word("sh", None), "sh");
        assert_eq!(word("sh", Some("/nowhere/sh".into())), "sh");
        let shell = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|directory| directory.join("sh"))
            .find(|shell| shell.is_file());
        assert_eq!(word("sh", shell), "sh");
    }
}
