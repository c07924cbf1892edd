//! `edge-agent`.

use std::{
    panic::{set_hook, take_hook},
    process::{ExitCode, abort},
};

use agent::cli::Cli;
use clap::Parser;
use tikv_jemallocator::Jemalloc;

/// Gives back what a burst of pods took; its settings are in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    abort_when_a_part_panics();
    let cli = Cli::parse();
    match cli.print(&mut std::io::stdout().lock()) {
        Ok(false) => {}
        // whoever reads has gone: nothing to say, and nobody to say it to
        Ok(true) | Err(_) => return ExitCode::SUCCESS,
    }
    agent::main(&cli)
}

/// A panic is a defect of this program. It ends as a whole, and whoever keeps it running starts it again, which loses nothing and
/// restarts no container: better than a node that goes on without one of its parts.
fn abort_when_a_part_panics() {
    let report = take_hook();
    set_hook(Box::new(move |panic| {
        if !agent::log::report_panic(panic) {
            report(panic);
        }
        abort()
    }));
}
