//! Standard output of commands: an error names it. Otherwise "No space left on device" would seem to be about the node's disk.

use std::io::{self, Stdout, Write};

/// Writes to stdout.
#[derive(Debug)]
pub(crate) struct Output<W = Stdout>(pub(crate) W);

/// Output cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to stdout; the output is incomplete")]
struct OutputError(#[source] io::Error);

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(add_context)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(add_context)
    }
}

/// Keeps the kind, by which a closed pipe is recognized, and which decides whether the call is repeated.
fn add_context(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), OutputError(error))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn full_output_is_not_taken_for_a_full_disk() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let error = Output(full).write_all(b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let text = wire::text::with_causes(&error);
        assert!(text.starts_with("cannot write to stdout"), "{text}");
        assert!(text.contains("No space left"), "{text}");
    }
}
