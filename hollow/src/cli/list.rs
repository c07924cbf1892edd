//! The options of lists, as those of `kubectl get`.

use agent::cli::Output;
use anyhow::bail;
use clap::{Args, ValueEnum};

/// How a list is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// A table with all columns
    Wide,
    /// Only names, as KIND/NAME
    Name,
}

impl ListFormat {
    /// Returns the format of documents; `None` for tables and names.
    pub fn document(self) -> Option<Output> {
        match self {
            Self::Json => Some(Output::Json),
            Self::Yaml => Some(Output::Yaml),
            Self::Wide | Self::Name => None,
        }
    }
}

/// The options of a list.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct ListArgs {
    /// Output format: json, yaml, wide or name [default: a table]
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        hide_possible_values = true
    )]
    pub output: Option<ListFormat>,

    /// Print the list, then each change until Ctrl-C
    #[arg(short, long)]
    pub watch: bool,
}

impl ListArgs {
    /// Returns these options, with those of the subcommand `list` instead of missing ones.
    pub fn or(self, other: Self) -> Self {
        Self {
            output: other.output.or(self.output),
            watch: self.watch || other.watch,
        }
    }

    /// Checks that no option was given to a command that is no list.
    ///
    /// # Errors
    /// An option would have no effect.
    pub fn refuse_for(&self, command: &str) -> anyhow::Result<()> {
        if *self == Self::default() {
            return Ok(());
        }
        bail!("--output and --watch before `{command}` have no effect; remove them")
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::Cli;

    fn parse(line: &str) -> Result<Cli, String> {
        let words = ["cloudsim"].into_iter().chain(line.split_whitespace());
        Cli::try_parse_from(words).map_err(|error| error.to_string())
    }

    #[test]
    fn all_lists_take_the_same_options_in_singular_and_plural() {
        for list in [
            "nodes",
            "node",
            "devices",
            "device",
            "rules",
            "rule",
            "faults list",
            "fault list",
            "nodes list",
            "device list",
            "rule list",
            "mesh",
            "status",
        ] {
            for options in [
                "",
                "-o json",
                "-o yaml",
                "-o wide",
                "--output name",
                "-w",
                "--watch",
                "--kubeconfig k --context c",
            ] {
                let parsed = parse(&format!("{list} {options}"));
                assert!(parsed.is_ok(), "{list} {options}: {parsed:?}");
            }
        }
        for line in [
            "faults",
            "fault cut edge-1",
            "faults profiles -o name",
            "faults messages -o wide",
            "tokens",
            "role",
            "completions bash",
            "completion zsh",
            "node reset edge-1",
            "device set n/d a=1",
            "rule send edge-1 ns/path -o json",
            "down --all",
            "kubeconfig --context c",
            "up -d",
            "selftest --cloud c --token-file t --context c",
        ] {
            assert!(parse(line).is_ok(), "{line}: {:?}", parse(line));
        }
    }

    #[test]
    fn every_command_for_a_running_cloud_takes_kubeconfig_and_context() {
        const WITHOUT_CLOUD: [&str; 13] = [
            "up",
            "db",
            "record",
            "show",
            "diff",
            "replay",
            "run",
            "runtime",
            "demo",
            "hollow",
            "roles",
            "completion",
            "version",
        ];
        for command in Cli::command().get_subcommands() {
            let has = |option: &str| {
                command
                    .get_arguments()
                    .any(|argument| argument.get_long() == Some(option))
            };
            let name = command.get_name();
            assert_eq!(
                has("kubeconfig") && has("context"),
                !WITHOUT_CLOUD.contains(&name) || name == "up",
                "{name}"
            );
        }
    }

    #[test]
    fn version_names_commit_kubeedge_and_kubernetes() {
        let (short, long) = (parse("-V").unwrap_err(), parse("--version").unwrap_err());
        assert_eq!(short.trim_end().lines().count(), 1);
        let lines = [
            short.trim_end().to_owned(),
            "Commit: ".to_owned(),
            format!("KubeEdge Version: {}", wire::version::KUBEEDGE),
            format!("Kubernetes Version: {}", cloudsim::KUBERNETES_VERSION),
        ];
        assert_eq!(long.trim_end().lines().count(), lines.len(), "{long}");
        for (line, begin) in long.lines().zip(lines) {
            assert!(line.starts_with(&begin), "{begin}: {long}");
        }
    }

    #[test]
    fn mistyped_words_are_answered_with_the_nearest_known_one() {
        for (line, near) in [
            ("ndoes", "nodes"),
            ("devces", "devices"),
            ("kubeconfg", "kubeconfig"),
            ("statsu", "status"),
            ("node rest edge-1", "reset"),
            ("faults restor", "restore"),
            ("nodes --wach", "--watch"),
            ("nodes -o jso", "json"),
            ("up --node-lables a=b", "--node-labels"),
            ("up --detahc", "--detach"),
        ] {
            let refused = parse(line).unwrap_err();
            assert!(refused.contains(&format!("'{near}'")), "{line}: {refused}");
        }
    }

    #[test]
    fn options_of_a_list_have_effect_or_are_refused() {
        let watch = ListArgs {
            watch: true,
            output: None,
        };
        let json = ListArgs {
            watch: false,
            output: Some(ListFormat::Json),
        };
        assert_eq!(
            watch.clone().or(json.clone()),
            ListArgs {
                watch: true,
                output: Some(ListFormat::Json)
            }
        );
        assert!(ListArgs::default().refuse_for("set").is_ok());
        for list in [watch, json] {
            let refused = list.refuse_for("set").unwrap_err().to_string();
            assert!(refused.contains("`set`"), "{refused}");
        }
    }
}
