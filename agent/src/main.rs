//! `edge-agent`.

use std::{
    io::ErrorKind,
    panic::{set_hook, take_hook},
    process::{ExitCode, abort},
};

use agent::cli::Cli;
use mimalloc::MiMalloc;

/// Returns memory of a burst of pods to the system.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    abort_when_a_part_panics();
    let cli = Cli::parse_or_exit();
    match cli.print(&mut std::io::stdout().lock()) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        // the reader has closed the pipe: there is nothing to report
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
        Err(error) => {
            let error = anyhow::Error::new(error);
            let error = error.context("cannot write to stdout; the output is incomplete");
            agent::log::fatal("edge-agent", cli.log_format, &error);
            return ExitCode::FAILURE;
        }
    }
    agent::main(&cli)
}

/// Aborts on a panic, which is a defect of this program. The service manager restarts the program, which loses nothing and
/// restarts no container: better than a node without one of its modules.
fn abort_when_a_part_panics() {
    let report = take_hook();
    set_hook(Box::new(move |panic| {
        if !agent::log::report_panic(panic) {
            report(panic);
        }
        abort()
    }));
}
