//! `edge-agent`.

use std::process::ExitCode;

use agent::cli::Cli;
use clap::Parser;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.print(&mut std::io::stdout().lock()) {
        Ok(false) => {}
        // whoever reads has gone: nothing to say, and nobody to say it to
        Ok(true) | Err(_) => return ExitCode::SUCCESS,
    }
    agent::main(&cli)
}
