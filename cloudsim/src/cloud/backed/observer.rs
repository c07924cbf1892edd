//! Shows requests to the cluster's API to a function, before they are sent.

use std::{fmt, sync::Arc};

use http::{Method, Request, Uri};

type Observe = dyn Fn(&Method, &Uri) + Send + Sync;

/// A function that sees the method and the address of each request; cheap to clone.
#[derive(Clone)]
pub struct Observer(Arc<Observe>);

impl Observer {
    /// Creates an observer.
    pub fn new(observe: impl Fn(&Method, &Uri) + Send + Sync + 'static) -> Self {
        Self(Arc::new(observe))
    }

    /// Shows a request, and returns it.
    pub(super) fn see<B>(&self, request: Request<B>) -> Request<B> {
        (self.0)(request.method(), request.uri());
        request
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Observer")
    }
}
