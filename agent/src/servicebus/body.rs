//! Reads bodies within a limit, and holds only a few large ones at a time, so that the total memory is bounded.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::bus::MAX_BODY;

/// The largest small body, bytes.
const MAX_SMALL_BYTES: usize = 64 * 1024;
/// The most large bodies that are held at a time, in one direction.
const MAX_LARGE_BODIES: usize = 8;

/// The permits of large bodies; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct LargeBodyLimiter(Arc<Semaphore>);

impl Default for LargeBodyLimiter {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_LARGE_BODIES)))
    }
}

/// A body, with its permit if it is large; keep both for the same time.
#[derive(Debug)]
pub(super) struct BodyWithPermit {
    pub(super) bytes: Bytes,
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("the body has more than {MAX_BODY} bytes")]
    TooLarge,
    #[error("the body ended early: {0}")]
    Broken(String),
}

impl LargeBodyLimiter {
    /// Returns a permit for a body of this size, if it needs one; the outer value is `None` if none is free.
    pub(super) fn permit(&self, bytes: usize) -> Option<Option<OwnedSemaphorePermit>> {
        if bytes <= MAX_SMALL_BYTES {
            return Some(None);
        }
        self.0.clone().try_acquire_owned().ok().map(Some)
    }

    /// Reads a body. A large one waits for a permit; the caller has a deadline.
    pub(super) async fn read<B>(&self, body: B) -> Result<BodyWithPermit, ReadError>
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let mut body = std::pin::pin!(body);
        let (mut bytes, mut permit) = (BytesMut::new(), None);
        // a body that is announced as too large is not read at all
        if body.size_hint().lower() > MAX_BODY as u64 {
            return Err(ReadError::TooLarge);
        }
        while let Some(frame) = body.as_mut().frame().await {
            let frame = frame.map_err(|error| ReadError::Broken(error.to_string()))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if bytes.len() + data.len() > MAX_BODY {
                return Err(ReadError::TooLarge);
            }
            if permit.is_none() && bytes.len() + data.len() > MAX_SMALL_BYTES {
                permit = self.0.clone().acquire_owned().await.ok();
            }
            bytes.extend_from_slice(&data);
        }
        Ok(BodyWithPermit {
            bytes: bytes.freeze(),
            permit,
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use http_body_util::Full;

    use super::*;

    #[test]
    fn only_a_few_large_bodies_are_held() {
        let large = LargeBodyLimiter::default();
        let read = |size: usize| {
            large
                .read(Full::new(Bytes::from(vec![0; size])))
                .now_or_never()
        };
        let held: Vec<_> = (0..MAX_LARGE_BODIES)
            .map(|_| read(MAX_SMALL_BYTES + 1).unwrap().unwrap())
            .collect();
        assert!(read(MAX_SMALL_BYTES + 1).is_none(), "it waits");
        assert_eq!(
            read(MAX_SMALL_BYTES).unwrap().unwrap().bytes.len(),
            MAX_SMALL_BYTES
        );
        assert!(
            large.permit(MAX_SMALL_BYTES + 1).is_none() && large.permit(MAX_SMALL_BYTES).is_some()
        );
        drop(held);
        assert_eq!(read(MAX_BODY).unwrap().unwrap().bytes.len(), MAX_BODY);
        assert!(matches!(
            read(MAX_BODY + 1).unwrap(),
            Err(ReadError::TooLarge)
        ));
    }
}
