//! The way to the runtime, on which every call is counted.

use std::{
    task::{Context, Poll},
    time::Instant,
};

use futures::future::BoxFuture;
use http::{Request, Response};
use tonic::{
    body::Body,
    transport::{Channel, Error},
};
use tower::Service;

use crate::edged::metrics::Operations;

/// A channel that counts.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    channel: Channel,
    operations: Operations,
}

impl Counted {
    /// Counts what goes over `channel` in `operations`.
    pub(super) fn new(channel: Channel, operations: Operations) -> Self {
        Self { channel, operations }
    }
}

/// A call under way. One that is given up, as too slow, counts as failed.
struct Call {
    path: http::Uri,
    begun: Instant,
    failed: bool,
    operations: Operations,
}

impl Call {
    /// An error has no message, and so its code is in the head; a success has its code after the message.
    fn answered(&mut self, answer: &Response<Body>) {
        self.failed = answer.headers().get("grpc-status").is_some_and(|code| code != "0");
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let name = self.path.path().rsplit('/').next().unwrap_or_default();
        self.operations.count(name, self.begun.elapsed(), self.failed);
    }
}

impl Service<Request<Body>> for Counted {
    type Response = Response<Body>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Response<Body>, Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Service::poll_ready(&mut self.channel, cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut call = Call {
            path: request.uri().clone(),
            begun: Instant::now(),
            failed: true,
            operations: self.operations.clone(),
        };
        let answer = Service::call(&mut self.channel, request);
        Box::pin(async move {
            let answer = answer.await?;
            call.answered(&answer);
            Ok(answer)
        })
    }
}
