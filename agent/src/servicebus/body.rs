//! Reads bodies within a limit, and holds only a few large ones at a time: what others send is bounded in all, not each by itself.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::bus::MAX_BODY;

/// Up to so many bytes a body is small.
const SMALL: usize = 64 * 1024;
/// Large bodies that are held at a time, in one direction.
const LARGE: usize = 8;

/// The places of large bodies; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Large(Arc<Semaphore>);

impl Default for Large {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LARGE)))
    }
}

/// A body, with its place where it is large; keep it as long as the bytes.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) bytes: Bytes,
    pub(super) place: Option<OwnedSemaphorePermit>,
}

/// Why there is no body.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unread {
    #[error("it has more than {MAX_BODY} bytes")]
    TooLarge,
    #[error("it ended early: {0}")]
    Broken(String),
}

impl Large {
    /// A place for a body of so many bytes, if it needs one: the outer value is `None` where there is none now.
    pub(super) fn place(&self, bytes: usize) -> Option<Option<OwnedSemaphorePermit>> {
        if bytes <= SMALL {
            return Some(None);
        }
        self.0.clone().try_acquire_owned().ok().map(Some)
    }

    /// Reads a body. One that turns out to be large waits for a place; whoever calls this has a deadline.
    pub(super) async fn read<B>(&self, body: B) -> Result<Held, Unread>
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let mut body = std::pin::pin!(body);
        let (mut bytes, mut place) = (BytesMut::new(), None);
        // what is announced to be too large is not even begun with
        if body.size_hint().lower() > MAX_BODY as u64 {
            return Err(Unread::TooLarge);
        }
        while let Some(frame) = body.as_mut().frame().await {
            let frame = frame.map_err(|error| Unread::Broken(error.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > MAX_BODY {
                return Err(Unread::TooLarge);
            }
            if place.is_none() && bytes.len() + data.len() > SMALL {
                place = self.0.clone().acquire_owned().await.ok();
            }
            bytes.extend_from_slice(&data);
        }
        Ok(Held { bytes: bytes.freeze(), place })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use http_body_util::Full;

    use super::*;

    #[test]
    fn only_a_few_large_bodies_are_held() {
        let large = Large::default();
        let read = |size: usize| large.read(Full::new(Bytes::from(vec![0; size]))).now_or_never();
        let held: Vec<_> = (0..LARGE).map(|_| read(SMALL + 1).unwrap().unwrap()).collect();
        assert!(read(SMALL + 1).is_none(), "it waits");
        assert_eq!(read(SMALL).unwrap().unwrap().bytes.len(), SMALL);
        assert!(large.place(SMALL + 1).is_none() && large.place(SMALL).is_some());
        drop(held);
        assert_eq!(read(MAX_BODY).unwrap().unwrap().bytes.len(), MAX_BODY);
        assert!(matches!(read(MAX_BODY + 1).unwrap(), Err(Unread::TooLarge)));
    }
}
