//! How a message is sent, and when it is done with.

use std::{fmt, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use wire::Message;

use crate::edgehub::{EdgeHub, Unreachable};

/// Sends a message; done when it need not be sent again. An error: it is sent again, under the same id. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Deliver(Arc<dyn Fn(Message) -> BoxFuture<'static, Result<(), Unreachable>> + Send + Sync>);

impl Deliver {
    /// Done as this says.
    pub(crate) fn new<F>(deliver: impl Fn(Message) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), Unreachable>> + Send + 'static,
    {
        Self(Arc::new(move |message| deliver(message).boxed()))
    }

    /// Done when it was written to the connection: for what is never answered.
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

impl fmt::Debug for Deliver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deliver").finish_non_exhaustive()
    }
}
