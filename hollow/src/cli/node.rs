//! The command line of `cloudsim node`.

use clap::Subcommand;

use super::ListArgs;

/// What to do with a node.
#[derive(Clone, Debug, Subcommand)]
pub enum NodeCommand {
    /// List nodes with their connections
    #[command(alias = "ls")]
    List(ListArgs),
    /// Free a node's name for another machine: revoke its certificates and disconnect it
    Reset {
        /// The node
        #[arg(value_name = "NAME", required_unless_present = "lost")]
        name: Option<String>,
        /// All names whose records a damaged database has lost; these machines must join again
        #[arg(long, conflicts_with = "name")]
        lost: bool,
    },
}
