//! Reads a node's HTTP answer: its head, and then its body or the upgraded connection. hyper does the reading; what hyper writes is
//! discarded, since the request was sent in the connect frame.

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

use super::{connect_request, stream::NodeStream};

/// The largest head of an answer, and hyper's buffer for a body, bytes.
const MAX_HEAD: usize = 64 * 1024;

/// Waits for the head of the answer to a request with this method. Dropping this future, or what it returns, ends the stream.
pub(super) async fn read(stream: NodeStream, method: Method) -> Result<NodeAnswer, BoxError> {
    let gate = ResponseOnlyIo {
        inner: stream,
        asked: false,
        reader: None,
    };
    let mut builder = Builder::new();
    builder.max_buf_size(MAX_HEAD);
    let (mut sender, connection) = builder.handshake(TokioIo::new(gate)).await?;
    let stop = CancellationToken::new();
    let guard = stop.clone().drop_guard();
    tokio::spawn(async move {
        tokio::select! {
            // cancel-safe: nothing of it is needed any more
            () = stop.cancelled() => {}
            _ = connection.with_upgrades() => {}
        }
    });
    let request = Request::builder()
        .method(method)
        .uri("/")
        .body(Empty::<Bytes>::new())?;
    let mut response = sender.send_request(request).await.map_err(reason)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        connect_request::strip(response.headers_mut());
        let held = |body| ConnectionBody {
            body,
            _sender: sender,
            _guard: guard,
        };
        return Ok(NodeAnswer::Response(
            response.map(|body| held(body).boxed_unsync()),
        ));
    }
    let upgraded = hyper::upgrade::on(&mut response).await?;
    let parts = upgraded
        .downcast::<TokioIo<ResponseOnlyIo>>()
        .map_err(|_| "the connection is another one")?;
    let (reader, writer) = tokio::io::split(parts.io.into_inner().inner);
    // bytes behind the head are the first ones of the connection
    let reader = Cursor::new(parts.read_buf).chain(reader);
    Ok(NodeAnswer::Upgraded(
        response.into_parts().0,
        Box::new(tokio::io::join(reader, writer)),
    ))
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

/// A stream on which the request has been sent: reads wait until hyper has written its request, and writes are discarded.
struct ResponseOnlyIo {
    inner: NodeStream,
    asked: bool,
    reader: Option<Waker>,
}

impl AsyncRead for ResponseOnlyIo {
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

impl AsyncWrite for ResponseOnlyIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
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

/// A body that keeps its connection open and closes it when dropped.
struct ConnectionBody {
    body: Incoming,
    _sender: SendRequest<Empty<Bytes>>,
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
