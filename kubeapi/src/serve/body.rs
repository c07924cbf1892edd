//! The body of a response while it is sent: in small pieces, and watched for clients that stop reading.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use clock::Instant;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use limits::ActiveRequest;
use parking_lot::Mutex;

use super::{limits::CHUNK_BYTES, share::Request};
use crate::{Body, BoxError};

/// The responses in progress on one connection whose last piece was handed over and not yet written; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingWrites(Arc<Mutex<HashMap<u64, Instant>>>);

impl PendingWrites {
    /// Reports whether the client has not read a piece of a response for this long.
    pub(super) fn is_stalled(&self, limit: Duration) -> bool {
        let now = Instant::now();
        self.0
            .lock()
            .values()
            .any(|since| now.saturating_duration_since(*since) >= limit)
    }
}

/// A body, with the resources that its request holds until the body has ended.
struct TrackedBody {
    inner: Body,
    /// The rest of the last frame.
    rest: Bytes,
    number: u64,
    writing: PendingWrites,
    _active: ActiveRequest,
    _share: Request,
}

/// Wraps the body with the number `number` on its connection; it frees what its request holds when it ends.
pub(super) fn wrap_body(
    inner: Body,
    number: u64,
    writing: PendingWrites,
    active: ActiveRequest,
    share: Request,
) -> Body {
    TrackedBody {
        inner,
        rest: Bytes::new(),
        number,
        writing,
        _active: active,
        _share: share,
    }
    .boxed_unsync()
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.writing.0.lock().remove(&self.number);
    }
}

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.rest.is_empty() {
            let polled = Pin::new(&mut self.inner).poll_frame(context);
            let frame = match polled {
                Poll::Ready(Some(Ok(frame))) => frame,
                other => {
                    // whoever asks has room: it is the answer that has nothing yet
                    self.writing.0.lock().remove(&self.number);
                    return other;
                }
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            }
        }
        let length = self.rest.len().min(CHUNK_BYTES);
        let piece = self.rest.split_to(length);
        self.writing.0.lock().insert(self.number, Instant::now());
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.inner.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}
