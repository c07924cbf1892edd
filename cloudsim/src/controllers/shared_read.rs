//! A slow read that many request at the same time, as when all nodes come back at once: one read that begins after they have asked serves
//! all of them. After each read there is a pause, so that more requests share the next one.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::{
    sync::Mutex,
    time::{Duration, Instant, sleep_until},
};

/// The pause after a read, as a multiple of its duration: reads take a tenth of the time at most.
const PAUSE_FACTOR: u32 = 9;
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_millis(250);

/// The last result of the read.
#[derive(Debug)]
pub(super) struct SharedRead<T> {
    /// The number of reads that have begun.
    begun: AtomicU64,
    /// The last successful read.
    last: Mutex<Option<Reading<T>>>,
}

#[derive(Debug)]
struct Reading<T> {
    number: u64,
    value: Arc<T>,
    /// When the next read may begin.
    next: Instant,
}

impl<T> Default for SharedRead<T> {
    fn default() -> Self {
        Self {
            begun: AtomicU64::new(0),
            last: Mutex::new(None),
        }
    }
}

impl<T> SharedRead<T> {
    /// Returns the result of a read that began after this call: of `read`, or another caller's. Cancel-safe: a waiting caller reads in
    /// its place.
    pub(super) async fn get<E>(
        &self,
        read: impl Future<Output = Result<T, E>>,
    ) -> Result<Arc<T>, E> {
        let asked = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if let Some(last) = last.as_ref() {
            if last.number > asked {
                return Ok(last.value.clone());
            }
            // who asks meanwhile waits for the lock, and for the read that begins then
            sleep_until(last.next).await;
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let begun = Instant::now();
        let value = Arc::new(read.await?);
        let next = Instant::now() + pause_after(begun.elapsed());
        *last = Some(Reading {
            number,
            value: value.clone(),
            next,
        });
        Ok(value)
    }
}

/// Returns the pause after a read that `took` this long.
fn pause_after(took: Duration) -> Duration {
    (took * PAUSE_FACTOR).min(MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::future::join_all;
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn many_share_a_reading_that_began_after_they_asked() {
        let (newest, now, go) = (SharedRead::default(), AtomicU64::new(0), Notify::new());
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

    #[test]
    fn readings_take_a_tenth_of_the_time_and_nobody_waits_long() {
        let rest_of = |took| pause_after(Duration::from_millis(took)).as_millis();
        assert_eq!([0, 2, 20, 5_000].map(rest_of), [0, 18, 180, 250]);
    }

    #[tokio::test]
    async fn a_failure_is_one_askers_own() {
        let newest = SharedRead::<u32>::default();
        let failing = newest.get(async { Err("no") });
        let (failed, read) = tokio::join!(failing, newest.get(async { Ok::<_, Infallible>(7) }));
        assert_eq!((failed.unwrap_err(), *read.unwrap()), ("no", 7));
    }
}
