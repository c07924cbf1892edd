//! The commit of a turn to the disk.

use std::{future, pin::Pin};

use futures::future::{BoxFuture, FutureExt, MaybeDone, maybe_done};
use kubeapi::store::StoreError;

use super::{core::Turn, work::Work};

/// A turn, and what it takes to do it again.
#[derive(Default)]
pub(super) struct GatheredTurn {
    pub(super) turn: Turn,
    /// What nobody sends again soon, in the order in which it came.
    pub(super) again: Vec<Work>,
    /// Whether it has read objects.
    pub(super) follows: bool,
    /// How much it has taken.
    pub(super) count: usize,
}

/// What comes of writing it, kept until it is asked for.
type Outcome = Pin<Box<MaybeDone<BoxFuture<'static, Result<(), StoreError>>>>>;

/// A turn that is being committed.
pub(super) struct Commit {
    pub(super) gathered: GatheredTurn,
    outcome: Outcome,
}

impl Commit {
    /// With what writes it. The store has heard of it when this returns, and works on it whether or not anybody waits.
    pub(super) async fn start(
        gathered: GatheredTurn,
        writes: impl Future<Output = Result<(), StoreError>> + Send + 'static,
    ) -> Self {
        let mut outcome: Outcome = Box::pin(maybe_done(writes.boxed()));
        // ready or not: it is waited for later
        let _ = futures::poll!(&mut outcome);
        Self { gathered, outcome }
    }
}

/// What has become of the turn that is being written; nothing ever where there is none. Cancel-safe.
pub(super) async fn outcome(commit: &mut Option<Commit>) -> Result<(), StoreError> {
    if let Some(Commit { outcome, .. }) = commit {
        outcome.as_mut().await;
        if let Some(outcome) = outcome.as_mut().take_output() {
            return outcome;
        }
    }
    future::pending().await
}
