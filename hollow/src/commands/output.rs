//! Writes to stdout and stderr. A reader that has gone, as in `cloudsim nodes | head -1`, is no failure; any other error, as of a full
//! disk, fails the command: a program that reads a file would take half of the text for all of it.

use std::{
    io::{self, ErrorKind, Write},
    sync::OnceLock,
};

use anyhow::Context;
use serde::Serialize;
use wire::text::printable_lines;

use crate::cli::Output;

/// Why something was not written to stdout. There is one stdout in a process.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Prints a line. Parts of it may come from nodes and devices, so it is cleaned. [`check`] reports a failure.
pub(super) fn print_line(line: &str) {
    put(&format!("{}\n", printable_lines(line)));
}

/// Prints a document for programs.
pub(super) fn print(output: Output, value: &impl Serialize) -> anyhow::Result<()> {
    print_line(output.document(value)?.trim_end());
    Ok(())
}

/// Prints a warning to stderr, so that programs read only the answer on stdout.
pub(super) fn warn(line: &str) {
    let line = printable_lines(line);
    let _ = writeln!(io::stderr().lock(), "warning: {line}");
}

/// Writes a cleaned text, and reports whether somebody still reads.
///
/// # Errors
/// Those of [`check`].
pub(super) fn write(text: &str) -> anyhow::Result<bool> {
    let is_read = put(&printable_lines(text));
    check().map(|()| is_read)
}

/// Writes a text as it is, and reports whether somebody still reads. [`check`] reports a failure.
pub(super) fn put(text: &str) -> bool {
    put_bytes(text.as_bytes())
}

/// The same for bytes.
pub(super) fn put_bytes(bytes: &[u8]) -> bool {
    if FAILURE.get().is_some() {
        return false;
    }
    write_to(&mut io::stdout().lock(), bytes).unwrap_or_else(|error| {
        let _ = FAILURE.set(error);
        false
    })
}

/// Stdout, whose failures [`check`] reports.
pub(super) struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        put_bytes(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reports whether everything was written.
///
/// # Errors
/// Something was not, for another reason than that nobody reads it.
pub(super) fn check() -> anyhow::Result<()> {
    let Some(error) = FAILURE.get() else {
        return Ok(());
    };
    let error = error.raw_os_error().map_or_else(
        || io::Error::new(error.kind(), error.to_string()),
        io::Error::from_raw_os_error,
    );
    Err(error).context("cannot write to stdout; the output is incomplete")
}

fn write_to(out: &mut impl Write, bytes: &[u8]) -> io::Result<bool> {
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use nix::unistd::pipe;

    use super::*;

    #[test]
    fn only_a_reader_that_has_gone_is_no_failure() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let null = File::options().write(true).open("/dev/null").unwrap();
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let closed = File::from(writer);
        for (mut out, expected) in [
            (null, Ok(true)),
            (closed, Ok(false)),
            (full, Err(ErrorKind::StorageFull)),
        ] {
            let mut buffered = io::BufWriter::new(&mut out);
            let written = write_to(&mut buffered, b"line\n");
            assert_eq!(written.map_err(|error| error.kind()), expected);
            // what is left in the buffer is not written again
            let _ = buffered.into_parts();
        }
    }
}
