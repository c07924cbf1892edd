//! The program `cloudsim`.

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;

/// Returns memory to the system after a burst of objects.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    hollow::main(hollow::cli::Cli::parse())
}
