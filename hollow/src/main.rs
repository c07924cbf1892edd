//! The program `cloudsim`.

use std::process::ExitCode;

use clap::Parser;
use tikv_jemallocator::Jemalloc;

/// Returns memory to the system after a burst of objects; its settings are in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    hollow::main(hollow::cli::Cli::parse())
}
