//! The program `cloudsim`.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Returns memory to the system after a burst of objects.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    hollow::main(hollow::cli::Cli::parse_or_exit())
}
