//! The command line of `cloudsim db`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with a cloud's store.
#[derive(Clone, Debug, Subcommand)]
pub enum DbCommand {
    /// Read all of it and say what is wrong; exit code 1 where something is. The cloud may run
    Check(DbPlace),
    /// Write it anew with all that can be read of it, and say what is lost; the damaged file stays beside it. The cloud must not run
    Repair(DbPlace),
    /// Put a new key on top of a key file, which is made where it is missing
    ///
    /// What was encrypted with the keys below it is encrypted anew at the next start; after that they can be taken out.
    NewKey {
        /// The key file, for --key-file
        file: PathBuf,
    },
}

/// Which store.
#[derive(Args, Clone, Debug)]
pub struct DbPlace {
    /// The data directory of the cloud
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// The keys that its Secrets are encrypted with
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
}
