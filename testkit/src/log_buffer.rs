//! A log in memory, for tests of log output.

use std::{
    io::{self, Write},
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use tracing::{Dispatch, subscriber::NoSubscriber};
use tracing_subscriber::fmt::MakeWriter;

/// The captured log lines; clones share them. A buffer belongs to the subscriber that a test sets for its thread; several tests may do
/// so at once in one process.
#[derive(Clone, Debug)]
pub struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl Default for LogBuffer {
    fn default() -> Self {
        static OTHER: OnceLock<Dispatch> = OnceLock::new();
        // While a process has one subscriber, `tracing` asks the thread that reaches a log line first whether anybody wants it, and
        // remembers the answer for all threads. With a second one, it asks all subscribers.
        OTHER.get_or_init(|| Dispatch::new(NoSubscriber::new()));
        Self(Arc::default())
    }
}

impl LogBuffer {
    /// Returns the whole log as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock()).into_owned()
    }
}

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogBuffer {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    /// Logs one line; each thread that calls it reaches the same place in the code.
    fn log() {
        tracing::warn!("a line");
    }

    #[test]
    fn line_is_captured_although_a_thread_without_subscriber_logs_it_first() {
        let logged = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let buffer = LogBuffer::default();
                let writer = buffer.clone();
                let lines = tracing_subscriber::fmt().with_writer(move || writer.clone());
                let _set = tracing::subscriber::set_default(lines.finish());
                logged.wait();
                logged.wait();
                log();
                assert_eq!(buffer.text().matches("a line").count(), 1);
            });
            scope.spawn(|| {
                logged.wait();
                log();
                logged.wait();
            });
        });
    }
}
