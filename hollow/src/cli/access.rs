//! The options of commands for a running cloud.

use std::path::PathBuf;

use clap::Args;
use wire::text::printable;

/// The longest name of a context, in characters.
const MAX_CONTEXT_CHARS: usize = 253;

/// The heading of these options.
const CLOUD: &str = "Cloud";

/// How a running cloud is reached.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Kubeconfig of `up`, or of the cluster [default: $KUBECONFIG, or cloudsim.kubeconfig]
    #[arg(long, global = true, value_name = "FILE", help_heading = CLOUD)]
    pub kubeconfig: Option<PathBuf>,

    /// Context in the kubeconfig [default: the current one]
    #[arg(long, global = true, value_name = "NAME", help_heading = CLOUD)]
    pub context: Option<String>,
}

/// Checks the name of a new context, which stands in commands to paste and in one line of a table.
pub(super) fn context(text: &str) -> Result<String, String> {
    match text.chars().count() {
        0 => Err("a name, for example edge".to_owned()),
        1..=MAX_CONTEXT_CHARS if printable(text) == text => Ok(text.to_owned()),
        1..=MAX_CONTEXT_CHARS => Err("a name without control characters".to_owned()),
        length => Err(format!(
            "a name of at most {MAX_CONTEXT_CHARS} characters; this one has {length}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::Cli;

    #[test]
    fn name_of_a_context_fits_in_one_line() {
        let up = |name: &str| {
            Cli::try_parse_from(["cloudsim", "up", "--context", name])
                .map_err(|error| error.to_string())
        };
        for name in [
            "edge",
            "kind-kind",
            "user@host:6443/a b",
            "ä",
            &"x".repeat(253),
        ] {
            assert!(up(name).is_ok(), "{name:?}");
        }
        for (name, why) in [
            ("", "a name"),
            ("a\nb", "control characters"),
            ("a\tb", "control characters"),
            ("\u{1b}[31m", "control characters"),
            ("a\u{202e}b", "control characters"),
            (&"x".repeat(254), "at most 253"),
            (&"x".repeat(70_000), "this one has 70000"),
        ] {
            let refused = up(name).unwrap_err();
            assert!(refused.contains(why), "{name:?}: {refused}");
        }
    }
}
