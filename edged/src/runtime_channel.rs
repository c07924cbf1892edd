//! The channel to the container runtime: over its socket, or into a runtime of the same process.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use http::{Request, Response};
use tonic::{
    body::Body,
    transport::{Channel, Error},
};
use tower::Service;

/// Answers the calls of a runtime in the same process.
type Calls = dyn Fn(Request<Body>) -> BoxFuture<'static, Response<Body>> + Send + Sync;

/// A channel to a container runtime, CRI v1; cheap to clone.
#[derive(Clone)]
pub enum RuntimeChannel {
    /// Over a socket.
    Socket(Channel),
    /// To a runtime of the same process. A call is part of its caller: it needs no connection, buffer or task, and ends if it is
    /// dropped.
    InProcess(Arc<Calls>),
}

impl RuntimeChannel {
    /// Returns a channel to a runtime of this process, whose calls are answered by this function.
    pub fn in_process(
        answer: impl Fn(Request<Body>) -> BoxFuture<'static, Response<Body>> + Send + Sync + 'static,
    ) -> Self {
        Self::InProcess(Arc::new(answer))
    }
}

impl fmt::Debug for RuntimeChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Socket(_) => "Socket",
            Self::InProcess(_) => "InProcess",
        })
    }
}

impl From<Channel> for RuntimeChannel {
    fn from(channel: Channel) -> Self {
        Self::Socket(channel)
    }
}

impl Service<Request<Body>> for RuntimeChannel {
    type Response = Response<Body>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Response<Body>, Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match self {
            Self::Socket(channel) => Service::poll_ready(channel, cx),
            Self::InProcess(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match self {
            Self::Socket(channel) => Box::pin(Service::call(channel, request)),
            Self::InProcess(calls) => {
                let response = calls(request);
                Box::pin(async move { Ok(response.await) })
            }
        }
    }
}
