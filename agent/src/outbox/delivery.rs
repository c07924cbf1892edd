//! How a message is sent, and when its delivery is complete.

use std::{fmt, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use wire::Message;

use crate::edgehub::{EdgeHub, Unreachable};

/// Sends a message; completes when it need not be sent again. After an error it is sent again under the same id. Cheap to
/// clone.
#[derive(Clone)]
pub(crate) struct Delivery(
    Arc<dyn Fn(Message) -> BoxFuture<'static, Result<(), Unreachable>> + Send + Sync>,
);

impl Delivery {
    /// Creates a delivery from a function.
    pub(crate) fn new<F>(deliver: impl Fn(Message) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), Unreachable>> + Send + 'static,
    {
        Self(Arc::new(move |message| deliver(message).boxed()))
    }

    /// Creates a delivery that completes when the message was written to the connection, for messages without an answer.
    pub(crate) fn written(hub: EdgeHub) -> Self {
        Self::new(move |message| {
            let hub = hub.clone();
            async move { hub.deliver(message).await }
        })
    }

    pub(super) fn send(&self, message: Message) -> BoxFuture<'static, Result<(), Unreachable>> {
        (self.0)(message)
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deliver").finish_non_exhaustive()
    }
}
