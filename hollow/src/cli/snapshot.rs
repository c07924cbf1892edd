//! The command line of `cloudsim snapshot`.

use std::path::PathBuf;

use clap::Args;

use super::Access;

/// The options of `cloudsim snapshot`.
#[derive(Args, Clone, Debug)]
pub struct Snapshot {
    /// The cloud
    #[command(flatten)]
    pub access: Access,

    /// Write only the objects of the API, as `kubectl get --output json` does; also in cluster mode and with --data-dir
    #[arg(long)]
    pub objects: bool,

    /// The file, which is replaced
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}
