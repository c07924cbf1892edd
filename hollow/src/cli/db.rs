//! The command line of `cloudsim db`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const CHECK_NOTES: &str = "Exit code: 0 no fault, 1 faults found.";

const REPAIR_NOTES: &str = "The command prints the lost objects. The damaged file stays in the same directory, under a new name that the command prints.";

const NEW_KEY_NOTES: &str = "\
The next start encrypts all data with the new key. After that, you can remove the older keys.";

/// What to do with a cloud's store.
#[derive(Clone, Debug, Subcommand)]
pub enum DbCommand {
    /// Check the database; the cloud may run
    #[command(after_help = CHECK_NOTES)]
    Check(DbPlace),
    /// Write a new database with all readable objects; the cloud must not run
    #[command(after_help = REPAIR_NOTES)]
    Repair(DbPlace),
    /// Add a new key to a key file, or create the file
    #[command(after_help = NEW_KEY_NOTES)]
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
    /// File of the keys that encrypt Secrets
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
}
