//! The command line of `cloudsim node`.

use clap::Subcommand;

use super::ListArgs;

/// What to do with a node.
#[derive(Clone, Debug, Subcommand)]
pub enum NodeCommand {
    /// List nodes with their connections
    List(ListArgs),
    /// Revoke a node's certificates and disconnect it, so that another machine can join under its name
    Reset {
        /// The node
        #[arg(value_name = "NAME", required_unless_present = "lost")]
        name: Option<String>,
        /// Reset all names whose records were lost with a damaged database; these machines must join again
        #[arg(long, conflicts_with = "name")]
        lost: bool,
    },
}
