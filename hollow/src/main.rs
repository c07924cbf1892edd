//! `cloudsim`.

use std::process::ExitCode;

use clap::Parser;
use tikv_jemallocator::Jemalloc;

/// Gives back what a burst of objects took; its settings are in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    hollow::main(hollow::cli::Cli::parse())
}
