//! What takes long to read, and is asked for by many at the same time, as when all nodes come back at once: one reading, begun after
//! they have asked, is for all of them; and the more of them there are, the more wait for one reading, since the next one begins
//! only a while after the last.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::{
    sync::Mutex,
    time::{Duration, Instant, sleep_until},
};

/// After a reading there is none for so many times as long as it took: all of them together take a tenth of a processor at most.
const REST: u32 = 9;
/// … and for no longer than this.
const LONGEST_REST: Duration = Duration::from_millis(250);

/// The last reading.
#[derive(Debug)]
pub(super) struct Newest<T> {
    /// Readings that have begun.
    begun: AtomicU64,
    /// The last that succeeded.
    last: Mutex<Option<Reading<T>>>,
}

#[derive(Debug)]
struct Reading<T> {
    number: u64,
    value: Arc<T>,
    /// When the next one may begin.
    next: Instant,
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
        if let Some(last) = last.as_ref() {
            if last.number > asked {
                return Ok(last.value.clone());
            }
            // who asks meanwhile waits for the lock, and for the reading that begins then
            sleep_until(last.next).await;
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let begun = Instant::now();
        let value = Arc::new(read.await?);
        let next = Instant::now() + rest(begun.elapsed());
        *last = Some(Reading { number, value: value.clone(), next });
        Ok(value)
    }
}

/// How long there is no reading after one that `took` so long.
fn rest(took: Duration) -> Duration {
    (took * REST).min(LONGEST_REST)
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

    #[test]
    fn readings_take_a_tenth_of_the_time_and_nobody_waits_long() {
        let rest_of = |took| rest(Duration::from_millis(took)).as_millis();
        assert_eq!([0, 2, 20, 5_000].map(rest_of), [0, 18, 180, 250]);
    }

    #[tokio::test]
    async fn a_failure_is_one_askers_own() {
        let newest = Newest::<u32>::default();
        let failing = newest.get(async { Err("no") });
        let (failed, read) = tokio::join!(failing, newest.get(async { Ok::<_, Infallible>(7) }));
        assert_eq!((failed.unwrap_err(), *read.unwrap()), ("no", 7));
    }
}
