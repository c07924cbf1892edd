//! The command line of `cloudsim node`.

use clap::Subcommand;

/// What to do with a node.
#[derive(Clone, Debug, Subcommand)]
pub enum NodeCommand {
    /// Take its certificates back, so that another machine can join under its name; it is thrown out if it is connected
    Reset {
        /// The node
        #[arg(value_name = "NAME", required_unless_present = "lost")]
        name: Option<String>,
        /// All names whose records were lost with a damaged database: their certificates count no more, and machines join anew
        #[arg(long, conflicts_with = "name")]
        lost: bool,
    },
}
