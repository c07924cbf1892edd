//! Changes of several kinds, for a controller that looks at all its objects in each pass.

use std::{fmt::Debug, time::Duration};

use futures::{
    FutureExt, StreamExt,
    stream::{BoxStream, SelectAll},
};
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;

use super::Informer;

/// The changes of the kinds that were added.
#[derive(Default)]
pub(crate) struct Changes(SelectAll<BoxStream<'static, ()>>);

impl Changes {
    /// Adds those of `informer`'s objects from now on.
    pub(crate) fn and<K>(mut self, informer: &Informer<K>) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        self.0
            .push(ReceiverStream::new(informer.listen()).map(drop).boxed());
        self
    }

    /// Waits for a change, or until `wait` is over if there is one; takes all changes that have come until then. Cancel-safe: what has
    /// changed is read from the informers.
    pub(crate) async fn wait(&mut self, wait: Option<Duration>) {
        let change = self.0.next();
        match wait {
            Some(wait) => drop(timeout(wait, change).await),
            None => drop(change.await),
        }
        while self.0.next().now_or_never().flatten().is_some() {}
    }
}
