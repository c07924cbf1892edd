//! A program in the place of a new edge-agent, which reports a version and then fails: `broken-agent` with a line at the end of its file,
//! `VERSION MODE`. It exits at once in the mode `exits`, and does nothing in the mode `hangs`.

// what is printed is read by the agent
#![allow(clippy::print_stdout)]

use std::{env, fs, process::ExitCode, thread};

use nix::{
    sys::{prctl, signal::Signal},
    unistd::getppid,
};

fn main() -> ExitCode {
    // as the agent does it, which may end at any time
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    let watcher = env::var("EDGE_AGENT_WATCHED_BY");
    if watcher.is_ok_and(|watcher| watcher != getppid().to_string()) {
        return ExitCode::FAILURE;
    }
    let own = fs::read("/proc/self/exe").unwrap_or_default();
    let line = own.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let (version, mode) = line.split_once(' ').unwrap_or_default();
    if env::args().any(|argument| argument == "--version") {
        println!("edge-agent {version}\nmore");
        return ExitCode::SUCCESS;
    }
    if mode == "hangs" {
        loop {
            thread::park();
        }
    }
    ExitCode::from(3)
}
