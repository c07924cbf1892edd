//! The command line of `cloudsim db`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with a cloud's store.
#[derive(Clone, Debug, Subcommand)]
pub enum DbCommand {
    /// Check the database; the cloud may run
    ///
    /// Exit code: 0 no fault, 1 faults found.
    Check(DbPlace),
    /// Write a new database with all readable objects; the cloud must not run
    ///
    /// Lost objects are printed. The damaged file stays beside the new one.
    Repair(DbPlace),
    /// Add a new key to a key file, or create the file
    ///
    /// The next start encrypts all data with the new key; after that you can remove the older keys.
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
    /// Key file with which Secrets are encrypted
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
}
