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
    /// Output format [default: a table]
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    pub output: Option<ListFormat>,

    /// After the list, print what changes until Ctrl-C
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
