//! The commit of a batch to the disk.

use std::{future, pin::Pin};

use futures::future::{BoxFuture, FutureExt, MaybeDone, maybe_done};
use objectstore::StoreError;

use super::{core::Batch, work::Work};

/// A batch, and what is needed to repeat it.
#[derive(Default)]
pub(super) struct GatheredBatch {
    pub(super) batch: Batch,
    /// Work that its sender does not send again soon, in the order in which it came.
    pub(super) retry: Vec<Work>,
    /// Whether the batch has applied objects.
    pub(super) has_objects: bool,
    /// The number of requests in the batch.
    pub(super) count: usize,
}

/// The outcome of the write, kept until it is taken.
type WriteOutcome = Pin<Box<MaybeDone<BoxFuture<'static, Result<(), StoreError>>>>>;

/// A batch that is being written.
pub(super) struct Commit {
    pub(super) gathered: GatheredBatch,
    outcome: WriteOutcome,
}

impl Commit {
    /// Starts the write. The store has the write when this returns, and executes it whether or not anything waits.
    pub(super) async fn start(
        gathered: GatheredBatch,
        writes: impl Future<Output = Result<(), StoreError>> + Send + 'static,
    ) -> Self {
        let mut outcome: WriteOutcome = Box::pin(maybe_done(writes.boxed()));
        // ready or not, it is awaited later
        let _ = futures::poll!(&mut outcome);
        Self { gathered, outcome }
    }
}

/// Returns the outcome of the write; never returns if there is none. Cancel-safe.
pub(super) async fn outcome(commit: &mut Option<Commit>) -> Result<(), StoreError> {
    if let Some(Commit { outcome, .. }) = commit {
        outcome.as_mut().await;
        if let Some(outcome) = outcome.as_mut().take_output() {
            return outcome;
        }
    }
    future::pending().await
}
