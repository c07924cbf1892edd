//! Reads a node's answer: its head, and the body that follows it or the connection behind it. hyper reads; what it writes is swallowed, since
//! the request has gone in the connect frame.

use std::{
    error::Error,
    io::{self, Cursor},
    pin::Pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, Empty};
use hyper::{
    body::Incoming,
    client::conn::http1::{Builder, SendRequest},
};
use hyper_util::rt::TokioIo;
use kubeapi::{BoxError, NodeAnswer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{go, stream::NodeStream};

/// Largest head of an answer, and what hyper holds of a body, bytes.
const MAX_HEAD: usize = 64 * 1024;

/// Waits for the head of the answer to a request of this method. What is given ends the stream when it is dropped, and so does this future.
pub(super) async fn read(stream: NodeStream, method: Method) -> Result<NodeAnswer, BoxError> {
    let gate = Gate { inner: stream, asked: false, reader: None };
    let mut builder = Builder::new();
    builder.max_buf_size(MAX_HEAD);
    let (mut sender, connection) = builder.handshake(TokioIo::new(gate)).await?;
    let stop = CancellationToken::new();
    let guard = stop.clone().drop_guard();
    tokio::spawn(async move {
        tokio::select! {
            // cancel-safe, both: nothing of it is needed any more
            () = stop.cancelled() => {}
            _ = connection.with_upgrades() => {}
        }
    });
    let request = Request::builder().method(method).uri("/").body(Empty::<Bytes>::new())?;
    let mut response = sender.send_request(request).await.map_err(reason)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        go::strip(response.headers_mut());
        let held = |body| Held { body, _sender: sender, _guard: guard };
        return Ok(NodeAnswer::Response(response.map(|body| held(body).boxed_unsync())));
    }
    let upgraded = hyper::upgrade::on(&mut response).await?;
    let parts = upgraded.downcast::<TokioIo<Gate>>().map_err(|_| "the connection is another one")?;
    let (reader, writer) = tokio::io::split(parts.io.into_inner().inner);
    // what came behind the head are the first bytes of the connection
    let reader = Cursor::new(parts.read_buf).chain(reader);
    Ok(NodeAnswer::Upgraded(response.into_parts().0, Box::new(tokio::io::join(reader, writer))))
}

/// What is behind an error of hyper's, where that says more.
fn reason(error: hyper::Error) -> BoxError {
    match error.source() {
        Some(cause) => cause.to_string().into(),
        None if error.is_incomplete_message() => "the stream ended before an answer was complete".into(),
        None => error.into(),
    }
}

/// A stream on which the request has been sent: nothing is read before hyper believes to have written it, and nothing is written.
struct Gate {
    inner: NodeStream,
    asked: bool,
    reader: Option<Waker>,
}

impl AsyncRead for Gate {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.asked {
            self.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        Pin::new(&mut self.inner).poll_read(context, into)
    }
}

impl AsyncWrite for Gate {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.asked = true;
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(from.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A body whose connection ends with it.
struct Held {
    body: Incoming,
    _sender: SendRequest<Empty<Bytes>>,
    _guard: DropGuard,
}

impl http_body::Body for Held {
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
