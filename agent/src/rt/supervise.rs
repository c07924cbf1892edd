//! Named tasks under one roof: the first that ends on its own, by return or by panic, ends them all, and its name is told.

use std::future::Future;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Runs named tasks until shutdown, or until one of them ends before it.
#[derive(Debug, Default)]
pub(crate) struct Supervisor {
    tasks: JoinSet<(&'static str, Result<(), Error>)>,
    names: Vec<(tokio::task::Id, &'static str)>,
}

/// A task ended although nobody asked it to.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// It returned.
    #[error("{0} stopped on its own; the log above it says why")]
    Returned(&'static str),
    /// It failed in a way that only a person can mend.
    #[error("{name} gave up")]
    Failed {
        /// The task.
        name: &'static str,
        /// Why.
        source: Error,
    },
    /// It panicked: a defect of this program.
    #[error("{name} failed: {message}; please report this with the log")]
    Panicked {
        /// The task.
        name: &'static str,
        /// What the panic said.
        message: String,
    },
}

impl Supervisor {
    /// No tasks yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Starts `task` under `name`.
    pub(crate) fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), Error>> + Send + 'static,
    ) {
        let handle = self.tasks.spawn(async move { (name, task.await) });
        self.names.push((handle.id(), name));
    }

    /// Waits until `shutdown` is cancelled and every task has ended, or until one ends before that; then `shutdown` is
    /// cancelled for the others, they are waited for, and the first that ended is the error.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) -> Result<(), Ended> {
        let mut first = None;
        while let Some(ended) = self.tasks.join_next().await {
            if !shutdown.is_cancelled() {
                first = Some(match ended {
                    Ok((name, Ok(()))) => Ended::Returned(name),
                    Ok((name, Err(source))) => Ended::Failed { name, source },
                    Err(error) => self.panicked(&error),
                });
                shutdown.cancel();
            }
        }
        first.map_or(Ok(()), Err)
    }

    fn panicked(&self, error: &tokio::task::JoinError) -> Ended {
        let name = self.names.iter().find(|(id, _)| *id == error.id()).map_or("a task", |(_, name)| *name);
        Ended::Panicked { name, message: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_task_that_ends_early_ends_the_others_and_is_named() {
        let shutdown = CancellationToken::new();
        let mut supervisor = Supervisor::new();
        let token = shutdown.clone();
        supervisor.spawn("patient", async move {
            token.cancelled().await;
            Ok(())
        });
        supervisor.spawn("hasty", async { Ok(()) });
        let error = supervisor.run(shutdown).await.unwrap_err();
        assert!(matches!(error, Ended::Returned("hasty")), "{error}");
    }

    #[tokio::test]
    async fn a_panic_is_told_with_the_name_of_its_task() {
        let mut supervisor = Supervisor::new();
        supervisor.spawn("fragile", async { panic!("on purpose") });
        let error = supervisor.run(CancellationToken::new()).await.unwrap_err().to_string();
        assert!(error.starts_with("fragile failed:") && error.contains("on purpose"), "{error}");
    }

    #[tokio::test]
    async fn shutdown_is_no_error() {
        let shutdown = CancellationToken::new();
        let mut supervisor = Supervisor::new();
        let token = shutdown.clone();
        supervisor.spawn("patient", async move {
            token.cancelled().await;
            Ok(())
        });
        shutdown.cancel();
        supervisor.run(shutdown).await.unwrap();
    }
}
