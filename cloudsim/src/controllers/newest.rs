//! What takes long to read, and is asked for by many at the same time, as when all nodes come back at once: one reading, begun after
//! they have asked, is for all of them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::Mutex;

/// The last reading.
#[derive(Debug)]
pub(super) struct Newest<T> {
    /// Readings that have begun.
    begun: AtomicU64,
    /// The last that succeeded, with its number.
    last: Mutex<Option<(u64, Arc<T>)>>,
}

impl<T> Default for Newest<T> {
    fn default() -> Self {
        Self { begun: AtomicU64::new(0), last: Mutex::new(None) }
    }
}

impl<T> Newest<T> {
    /// What was read after this was asked: by `read`, or by another's. Cancel-safe: who waits reads in its place.
    pub(super) async fn get<E>(&self, read: impl Future<Output = Result<T, E>>) -> Result<Arc<T>, E> {
        let asked = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if let Some((_, value)) = last.as_ref().filter(|(number, _)| *number > asked) {
            return Ok(value.clone());
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let value = Arc::new(read.await?);
        *last = Some((number, value.clone()));
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::future::join_all;
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn many_share_a_reading_that_began_after_they_asked() {
        let (newest, now, go) = (Newest::default(), AtomicU64::new(0), Notify::new());
        let read = async || {
            let read = now.load(Ordering::SeqCst);
            go.notified().await;
            Ok::<_, Infallible>(read)
        };
        let first = newest.get(read());
        let others = join_all((0..100).map(|_| newest.get(read())));
        let change = async {
            tokio::task::yield_now().await;
            // while the first is being read: too late for it, not for the others
            now.store(1, Ordering::SeqCst);
            go.notify_one();
            tokio::task::yield_now().await;
            go.notify_one();
        };
        let (first, others, ()) = tokio::join!(first, others, change);
        assert_eq!(*first.unwrap(), 0);
        assert!(others.into_iter().all(|read| *read.unwrap() == 1));
        assert_eq!(newest.begun.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_failure_is_one_askers_own() {
        let newest = Newest::<u32>::default();
        let failing = newest.get(async { Err("no") });
        let (failed, read) = tokio::join!(failing, newest.get(async { Ok::<_, Infallible>(7) }));
        assert_eq!((failed.unwrap_err(), *read.unwrap()), ("no", 7));
    }
}
