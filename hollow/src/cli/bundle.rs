//! The command line of `cloudsim bundle`.

use std::path::PathBuf;

use agent::cli::values;
use clap::Args;
use jiff::Timestamp;

use super::Access;

/// What a bug report contains, and where it is written.
#[derive(Args, Clone, Debug)]
pub struct Bundle {
    /// The cloud
    #[command(flatten)]
    pub access: Access,

    /// Archive to create, tar.gz; `-` writes to stdout [default: cloudsim-bundle-NAME-TIME.tar.gz]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Start of the logs and events: a duration before now or a time
    #[arg(long, value_name = "WHEN", default_value = "24h", value_parser = values::time)]
    pub since: Timestamp,

    /// End of the logs: a duration before now or a time [default: now]
    #[arg(long, value_name = "WHEN", value_parser = values::time)]
    pub until: Option<Timestamp>,

    /// Log file of the cloud, if it does not run in the background. Repeatable
    #[arg(long, value_name = "FILE")]
    pub log_file: Vec<PathBuf>,
}
