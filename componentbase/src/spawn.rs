//! Tasks and blocking work in the span of their caller: each line of the log names the node that wrote it, also in a process with many
//! nodes.

use std::future::Future;

use tokio::task::{self, JoinHandle};
use tracing::{Instrument, Span, instrument::Instrumented};

/// Starts a task in the current span.
pub fn spawn<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    task::spawn(work.in_current_span())
}

/// Runs `work` on a thread for blocking work, in the current span.
pub fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let span = Span::current();
    clock::spawn_blocking(move || span.in_scope(work))
}

/// Returns `work` in the current span, for a task of a set.
pub fn in_span<F: Future>(work: F) -> Instrumented<F> {
    work.in_current_span()
}

#[cfg(test)]
mod tests {
    use testkit::LogBuffer;
    use tracing_subscriber::prelude::*;

    use super::*;

    #[test]
    fn lines_of_all_kinds_of_work_name_the_node() {
        let buffer = LogBuffer::default();
        let writer = buffer.clone();
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(move || writer.clone());
        let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(lines));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(
            async {
                spawn(async { tracing::info!("task") }).await.unwrap();
                let mut set = task::JoinSet::new();
                set.spawn(in_span(async { tracing::info!("set") }));
                set.join_next().await.unwrap().unwrap();
            }
            .instrument(tracing::error_span!("agent", node = "edge-7")),
        );
        let text = buffer.text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines.len() == 2 && lines.iter().all(|line| line.contains("node=\"edge-7\"")),
            "{text}"
        );
    }
}
