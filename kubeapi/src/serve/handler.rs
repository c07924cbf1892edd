//! A service that has an answer to every request, without what tower asks for in addition.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response};
use hyper::body::Incoming;
use tower::Service;

use crate::Body;

/// Answers requests. It is cheap to clone: each request has a clone.
pub trait Handler: Clone + Send + Sync + 'static {
    /// Returns the answer.
    fn handle(self, request: Request<Incoming>) -> impl Future<Output = Response<Body>> + Send;
}

/// A handler as the service of a [`Server`](super::Server).
#[derive(Clone, Debug)]
pub struct HandlerService<H>(pub H);

impl<H: Handler> Service<Request<Incoming>> for HandlerService<H> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let handler = self.0.clone();
        Box::pin(async move { Ok(handler.handle(request).await) })
    }
}
