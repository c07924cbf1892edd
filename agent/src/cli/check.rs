//! Arguments of `edge-agent check` and `edge-agent status`.

use clap::Args;

use super::{
    InstallPaths, Output,
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

    /// Output format: json or yaml [default: text]
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        hide_possible_values = true
    )]
    pub output: Option<Output>,

    /// Paths of the installation
    #[command(flatten)]
    pub paths: InstallPaths,
}

/// How the state of a node is printed.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Output format: json or yaml [default: text]
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        hide_possible_values = true
    )]
    pub output: Option<Output>,

    /// Paths of the installation
    #[command(flatten)]
    pub paths: InstallPaths,
}
