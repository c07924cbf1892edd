//! A program in the place of a new edge-agent, which reports a version and then fails: `broken-agent` with a line at the end of its file,
//! `VERSION MODE`. It exits at once in the mode `exits`, and does nothing in the mode `hangs`.

// what is printed is read by the agent
#![allow(clippy::print_stdout)]

use std::{fs, process::ExitCode, thread};

fn main() -> ExitCode {
    let own = fs::read("/proc/self/exe").unwrap_or_default();
    let line = own.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let (version, mode) = line.split_once(' ').unwrap_or_default();
    if std::env::args().any(|argument| argument == "--version") {
        println!("edge-agent {version}\nmore");
        return ExitCode::SUCCESS;
    }
    // as the agent does it
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
    if mode == "hangs" {
        loop {
            thread::park();
        }
    }
    ExitCode::from(3)
}
