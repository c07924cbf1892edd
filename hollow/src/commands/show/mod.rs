//! `cloudsim show`: prints recordings, also those that are still written.

mod input;
mod printer;

use std::{
    io::{BufReader, Read},
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::bail;
use record::Reader;

use self::{
    input::{Tail, open},
    printer::Printer,
};
use super::{Signals, warn};
use crate::cli::Show;

pub(super) async fn run(show: Show) -> anyhow::Result<ExitCode> {
    if let (Some(since), Some(until)) = (show.since, show.until)
        && since > until
    {
        bail!("--since is later than --until; nothing can match");
    }
    let stop = Arc::new(AtomicBool::new(false));
    if !show.follow {
        return print_files(&show, &stop);
    }
    let mut signals = Signals::listen()?;
    let stopped = stop.clone();
    let mut printing = clock::spawn_blocking(move || print_files(&show, &stopped));
    clock::select! {
        printed = &mut printing => printed?,
        // cancel-safe: the task is awaited
        () = signals.wait() => {
            stop.store(true, Ordering::Relaxed);
            printing.await?
        }
    }
}

fn print_files(show: &Show, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let mut printer = Printer::new(show);
    let mut is_damaged = false;
    let followed = show.files.last().filter(|_| show.follow);
    for file in &show.files {
        if Some(file) == followed {
            is_damaged |= !follow(file, &mut printer, stop)?;
        } else {
            is_damaged |= !print_lines(open(file)?, file, &mut printer, stop)?;
        }
    }
    printer.finish(is_damaged)?;
    Ok(match is_damaged {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// Prints a recording while it is written: after a rotation, the next file.
fn follow(file: &Path, printer: &mut Printer<'_>, stop: &AtomicBool) -> anyhow::Result<bool> {
    let mut is_whole = true;
    let mut tail = Tail::open(file, stop)?;
    while printer.has_reader() && !stop.load(Ordering::Relaxed) {
        is_whole &= print_lines(&mut tail, file, printer, stop)?;
        tail.reopen();
    }
    Ok(is_whole)
}

/// Prints the lines of a recording. Returns false if a part of it cannot be read, which is reported.
fn print_lines(
    input: impl Read,
    file: &Path,
    printer: &mut Printer<'_>,
    stop: &AtomicBool,
) -> anyhow::Result<bool> {
    let mut is_whole = true;
    for line in Reader::new(BufReader::new(input)) {
        match line {
            Ok(line) => printer.line(&line)?,
            // a block was not complete yet
            Err(_) if stop.load(Ordering::Relaxed) => break,
            Err(error) => {
                is_whole = false;
                warn(&format!("{}: {error}", file.display()));
            }
        }
        if !printer.has_reader() {
            break;
        }
    }
    Ok(is_whole)
}
