//! The command line of `cloudsim rules`.

use clap::Subcommand;

use super::{ListArgs, Output};

/// What to do with rules.
#[derive(Clone, Debug, Subcommand)]
pub enum RulesCommand {
    /// List rules with source, target, message counts and last error
    List(ListArgs),
    /// Send a message through a rule, and print the answer
    ///
    /// Exit code: 1 if the answer has status 400 or more.
    Send {
        /// The node
        #[arg(value_name = "NODE")]
        node: String,
        /// The rule's source: NAMESPACE/PATH of a rule from rest, NAMESPACE/TOPIC of one from eventbus, the URL of one from servicebus
        #[arg(value_name = "TOPIC|PATH")]
        to: String,
        /// Body of the message
        #[arg(long, value_name = "TEXT", default_value = "")]
        body: String,
        /// Print the answer as JSON or YAML
        #[arg(short, long, value_name = "FORMAT", value_enum)]
        output: Option<Output>,
    },
}
