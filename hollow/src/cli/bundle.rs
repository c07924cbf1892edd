//! The command line of `cloudsim bundle`.

use std::path::PathBuf;

use agent::cli::LogArgs;
use clap::Args;

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

    /// Logs to include
    #[command(flatten)]
    pub logs: LogArgs,
}
