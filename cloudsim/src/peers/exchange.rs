//! One HTTP/1.1 request over a connection of its own.

use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::http1::{Builder, SendRequest},
};
use hyper_util::rt::TokioIo;
use kubeapi::BoxError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The largest head of an answer, and hyper's buffer for a body, bytes.
const MAX_HEAD: usize = 64 * 1024;

/// Sends the request, and waits for the head of the answer. Dropping this future, or the body of the answer, closes the connection.
pub(crate) async fn exchange<T>(
    io: T,
    request: Request<Full<Bytes>>,
) -> Result<Response<ConnectionBody>, BoxError>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new();
    builder.max_buf_size(MAX_HEAD);
    let (mut sender, connection) = builder.handshake(TokioIo::new(io)).await?;
    let stop = CancellationToken::new();
    let guard = stop.clone().drop_guard();
    tokio::spawn(async move {
        clock::select! {
            // cancel-safe: nothing of it is needed any more
            () = stop.cancelled() => {}
            _ = connection.with_upgrades() => {}
        }
    });
    let response = sender.send_request(request).await.map_err(reason)?;
    Ok(response.map(|body| ConnectionBody {
        body,
        _sender: sender,
        _guard: guard,
    }))
}

/// Returns the cause of hyper's error, if it says more.
fn reason(error: hyper::Error) -> BoxError {
    match error.source() {
        Some(cause) => cause.to_string().into(),
        None if error.is_incomplete_message() => {
            "the stream ended before an answer was complete".into()
        }
        None => error.into(),
    }
}

/// A body that keeps its connection open and closes it when dropped.
pub(crate) struct ConnectionBody {
    body: Incoming,
    _sender: SendRequest<Full<Bytes>>,
    _guard: DropGuard,
}

impl http_body::Body for ConnectionBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context).map_err(reason)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
