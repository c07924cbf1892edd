//! The versions that `--version` of both programs prints.

/// The version of KubeEdge whose protocol this is.
pub const KUBEEDGE: &str = "v1.23.0";

/// The commit of a release, from the environment of its build; other builds name none.
const COMMIT: Option<&str> = option_env!("OUTRIGGER_COMMIT");

/// Returns the text of `--version` behind the name of the program. `kubernetes` is the version whose kubelet, or API server, the
/// program replaces.
pub fn text(program: &str, kubernetes: &str) -> String {
    let commit = COMMIT.unwrap_or("unknown");
    format!(
        "{program}\nCommit: {commit}\nKubeEdge Version: {KUBEEDGE}\nKubernetes Version: {kubernetes}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_text_has_a_line_for_each_version() {
        let text = text("0.1.0", "v1.33.0");
        let names: Vec<_> = text.lines().map(|line| line.split(": ").next()).collect();
        let wanted = ["0.1.0", "Commit", "KubeEdge Version", "Kubernetes Version"];
        assert_eq!(names, wanted.map(Some));
    }
}
