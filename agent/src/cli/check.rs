//! Arguments of `edge-agent check`, `edge-agent status` and `edge-agent bundle`.

use std::path::PathBuf;

use clap::Args;

use super::{
    InstallPaths, LogArgs, OutputArgs,
    check_table::{CheckName, any_check},
};

/// How a machine or a node is checked.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Print the checks, each with the checks that it needs, and exit
    #[arg(long)]
    pub list: bool,

    /// Checks to skip, separated by commas. Repeatable
    #[arg(
        long,
        value_name = "ID",
        value_delimiter = ',',
        value_parser = any_check(),
        hide_possible_values = true
    )]
    pub skip: Vec<CheckName>,

    /// Exit with code 1 on warnings too
    #[arg(long)]
    pub warnings_as_errors: bool,

    /// Output format
    #[command(flatten)]
    pub output: OutputArgs,

    /// Paths of the installation
    #[command(flatten)]
    pub paths: InstallPaths,
}

/// How the state of a node is printed.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Output format
    #[command(flatten)]
    pub output: OutputArgs,

    /// Paths of the installation
    #[command(flatten)]
    pub paths: InstallPaths,
}

/// What a bug report contains, and where it is written.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Archive to create, tar.gz; `-` writes to stdout [default: edge-agent-bundle-NODE-TIME.tar.gz]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Logs to include
    #[command(flatten)]
    pub logs: LogArgs,

    /// Paths of the installation
    #[command(flatten)]
    pub paths: InstallPaths,
}
