//! The options that every command takes, at the end of each help page. The program `cloudsim` uses them as well.

use clap::{ArgAction, Args};

/// The heading of the options that every command takes.
pub const GLOBAL_OPTIONS: &str = "Global options";

/// The options that print help and the version.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HelpArgs {
    /// Print help
    #[arg(short, long, global = true, action = ArgAction::Help, help_heading = GLOBAL_OPTIONS)]
    pub help: Option<bool>,

    /// Print the version
    #[arg(short = 'V', long, action = ArgAction::Version, help_heading = GLOBAL_OPTIONS)]
    pub version: Option<bool>,
}
