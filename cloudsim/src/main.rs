//! `cloudsim`.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    cloudsim::main(cloudsim::cli::Cli::parse())
}
