//! The command line of `cloudsim rules`.

use clap::Subcommand;

use super::{ListArgs, OutputArgs};

const SEND_NOTES: &str = "Exit code: 1 if the answer has status 400 or more.";

/// What to do with rules.
#[derive(Clone, Debug, Subcommand)]
pub enum RulesCommand {
    /// List rules with source, target, message counts and last error
    #[command(alias = "ls")]
    List(ListArgs),
    /// Send a message through a rule, and print the answer
    #[command(after_help = SEND_NOTES)]
    Send {
        /// The node
        #[arg(value_name = "NODE")]
        node: String,
        /// Source of the rule: NAMESPACE/PATH for rest, NAMESPACE/TOPIC for eventbus, the URL for servicebus
        #[arg(value_name = "SOURCE")]
        to: String,
        /// Body of the message
        #[arg(long, value_name = "TEXT", default_value = "")]
        body: String,
        /// Output format
        #[command(flatten)]
        output: OutputArgs,
    },
}
