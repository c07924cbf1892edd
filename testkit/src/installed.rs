//! The programs that `make needs` installs beside the build directories, in versions of this repository's choice.

use std::path::{Path, PathBuf};

/// Names another kubectl for all tests, on machines for which `make needs` has none.
const KUBECTL_VARIABLE: &str = "OUTRIGGER_KUBECTL";

/// Returns the path of a program that `make needs` has installed: `python/bin/NAME` in a directory above this executable's.
pub fn installed_program(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let mut candidates = own
        .ancestors()
        .map(|directory| directory.join("python/bin").join(name));
    candidates.find(|path| path.exists())
}

/// Returns the path of the kubectl that tests run, whatever other kubectl the machine has.
///
/// # Panics
/// If `make needs` has not installed it.
pub fn kubectl() -> PathBuf {
    if let Some(path) = std::env::var_os(KUBECTL_VARIABLE) {
        return Path::new(&path).to_owned();
    }
    match installed_program("kubectl") {
        Some(path) => path,
        None => {
            panic!(
                "no kubectl beside the build directory: run `make needs` first, or set {KUBECTL_VARIABLE}"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    /// The version in `e2e/python/layer.py`.
    const VERSION: &str = "v1.33.9";

    #[test]
    fn kubectl_of_the_tests_has_the_pinned_version() {
        let output = Command::new(super::kubectl())
            .args(["version", "--client"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            text.contains(&format!("Client Version: {VERSION}")),
            "{text}"
        );
    }
}
