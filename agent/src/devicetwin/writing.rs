//! A turn on its way to the disk.

use std::{future, pin::Pin};

use futures::future::{BoxFuture, FutureExt, MaybeDone, maybe_done};
use kubeapi::store::StoreError;

use super::{core::Turn, task::Work};

/// A turn, and what it takes to do it again.
#[derive(Default)]
pub(super) struct Begun {
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

/// A turn that is being written.
pub(super) struct Writing {
    pub(super) begun: Begun,
    outcome: Outcome,
}

impl Writing {
    /// With what writes it. The store has heard of it when this returns, and works on it whether or not anybody waits.
    pub(super) async fn start(
        begun: Begun,
        writes: impl Future<Output = Result<(), StoreError>> + Send + 'static,
    ) -> Self {
        let mut outcome: Outcome = Box::pin(maybe_done(writes.boxed()));
        // ready or not: it is waited for later
        let _ = futures::poll!(&mut outcome);
        Self { begun, outcome }
    }
}

/// What has become of the turn that is being written; nothing ever where there is none. Cancel-safe.
pub(super) async fn written(writing: &mut Option<Writing>) -> Result<(), StoreError> {
    if let Some(Writing { outcome, .. }) = writing {
        outcome.as_mut().await;
        if let Some(outcome) = outcome.as_mut().take_output() {
            return outcome;
        }
    }
    future::pending().await
}
