//! `edge-agent`.

use std::process::ExitCode;

use agent::cli::Cli;
use clap::Parser;
use tikv_jemallocator::Jemalloc;

/// Gives back what a burst of pods took; its settings are in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.print(&mut std::io::stdout().lock()) {
        Ok(false) => {}
        // whoever reads has gone: nothing to say, and nobody to say it to
        Ok(true) | Err(_) => return ExitCode::SUCCESS,
    }
    agent::main(&cli)
}
