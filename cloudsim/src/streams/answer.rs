//! Reads a node's HTTP answer: its head, and then its body or the upgraded connection. hyper does the reading; what hyper writes is
//! discarded, since the request was sent in the connect frame.

use std::{
    io::{self, Cursor},
    pin::Pin,
    task::{Context, Poll, Waker},
};

use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use kubeapi::{BoxError, NodeAnswer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use super::{connect_request, stream::NodeStream};
use crate::peers::exchange;

/// Waits for the head of the answer to a request with this method. Dropping this future, or what it returns, ends the stream.
pub(super) async fn read(stream: NodeStream, method: Method) -> Result<NodeAnswer, BoxError> {
    let gate = ResponseOnlyIo {
        inner: stream,
        asked: false,
        reader: None,
    };
    let request = Request::builder()
        .method(method)
        .uri("/")
        .body(Full::default())?;
    let mut response = exchange(gate, request).await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        connect_request::strip(response.headers_mut());
        return Ok(NodeAnswer::Response(response.map(BodyExt::boxed_unsync)));
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
