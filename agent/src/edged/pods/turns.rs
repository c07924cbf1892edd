//! Turns: what costs the machine much is done for a few pods at a time. All at once would take longer in all, and the first pod
//! would be ready no sooner than the last.

use std::{num::NonZero, time::Duration};

use tokio::sync::Semaphore;

/// Sandboxes made at the same time for each processor: while one waits for its network, others compute.
const FOR_EACH_PROCESSOR: usize = 4;
/// What takes longer is waiting, not computing, and others need not wait for it.
const LONGEST: Duration = Duration::from_secs(3);

/// Whose turn it is; first come, first served.
#[derive(Debug)]
pub(crate) struct Turns {
    free: Semaphore,
    longest: Duration,
}

impl Turns {
    /// As many at a time as this machine's processors serve well.
    pub(crate) fn of_machine() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self::new(FOR_EACH_PROCESSOR.saturating_mul(processors), LONGEST)
    }

    fn new(at_once: usize, longest: Duration) -> Self {
        Self { free: Semaphore::new(at_once), longest }
    }

    /// Does `work` when it is its turn. A turn ends with the work, or before it when that takes long.
    pub(super) async fn take<T>(&self, work: impl Future<Output = T>) -> T {
        // nobody closes the semaphore; if somebody did, nothing would have to wait
        let turn = self.free.acquire().await;
        let mut work = std::pin::pin!(work);
        match tokio::time::timeout(self.longest, &mut work).await {
            Ok(done) => done,
            Err(_) => {
                drop(turn);
                work.await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::pending};

    use futures::future::join_all;

    use super::*;

    #[tokio::test]
    async fn only_so_many_work_at_the_same_time() {
        let (turns, now, most) = (Turns::new(3, LONGEST), Cell::new(0), Cell::new(0));
        let work = async || {
            now.set(now.get() + 1);
            most.set(most.get().max(now.get()));
            tokio::task::yield_now().await;
            now.set(now.get() - 1);
        };
        join_all((0..20).map(|_| turns.take(work()))).await;
        assert_eq!((now.get(), most.get()), (0, 3));
    }

    #[tokio::test]
    async fn work_that_hangs_holds_up_nobody_for_ever() {
        let turns = Turns::new(1, Duration::from_millis(10));
        tokio::select! {
            biased;
            () = turns.take(pending()) => unreachable!("it hangs"),
            () = turns.take(async {}) => {}
        }
    }
}
