//! A channel to the container runtime that counts and times every call.

use std::task::{Context, Poll};

use clock::Instant;
use futures::future::BoxFuture;
use http::{Request, Response};
use tonic::{body::Body, transport::Error};
use tower::Service;

use crate::{RuntimeChannel, metrics::Operations};

/// A channel that records every call in [`Operations`].
#[derive(Clone, Debug)]
pub(crate) struct MeteredChannel {
    channel: RuntimeChannel,
    operations: Operations,
}

impl MeteredChannel {
    /// Records the calls over `channel` in `operations`.
    pub(super) fn new(channel: RuntimeChannel, operations: Operations) -> Self {
        Self {
            channel,
            operations,
        }
    }
}

/// A call in progress. If it is dropped before its response, it counts as failed.
struct Call {
    path: http::Uri,
    begun: Instant,
    failed: bool,
    operations: Operations,
}

impl Call {
    /// Reads from the response's head whether the call failed: an error has its code there, a success has its code after the
    /// message.
    fn record_status(&mut self, response: &Response<Body>) {
        self.failed = response
            .headers()
            .get("grpc-status")
            .is_some_and(|code| code != "0");
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let name = self.path.path().rsplit('/').next().unwrap_or_default();
        self.operations
            .count(name, self.begun.elapsed(), self.failed);
    }
}

impl Service<Request<Body>> for MeteredChannel {
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
        let response = Service::call(&mut self.channel, request);
        Box::pin(async move {
            let response = response.await?;
            call.record_status(&response);
            Ok(response)
        })
    }
}
