//! Turns: what costs the machine much is done for a few pods at a time. All at once would take longer in all, and the first pod
//! would be ready no sooner than the last.

use std::{num::NonZero, time::Duration};

use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

/// Sandboxes made at the same time for each processor: while one waits for its network, others compute.
const FOR_EACH_PROCESSOR: usize = 4;
/// What takes longer is waiting, not computing, and others need not wait for it.
const LONGEST: Duration = Duration::from_secs(3);
/// What takes longer is reported while it goes on, and what can wait waits so long …
const PATIENCE: Duration = Duration::from_secs(1);
/// … or after so many times as long where all turns are taken.
const MOST_PATIENCE: usize = 10;

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
        match timeout(self.longest, &mut work).await {
            Ok(done) => done,
            Err(_) => {
                drop(turn);
                work.await
            }
        }
    }

    /// Whether all turns are taken.
    fn are_taken(&self) -> bool {
        self.free.available_permits() == 0
    }

    /// Ends when there is time for what can wait: not all turns are taken, or it has waited long.
    pub(crate) async fn spare(&self) {
        self.free_or_after(MOST_PATIENCE).await;
    }

    /// Ends when what has gone on since it was called is worth a report: after a while, or a longer one as long as the machine has
    /// its hands full with starting pods, and each report takes from the time in which they could start.
    pub(super) async fn patience(&self) {
        sleep(PATIENCE).await;
        self.free_or_after(MOST_PATIENCE - 1).await;
    }

    async fn free_or_after(&self, times: usize) {
        for _ in 0..times {
            if !self.are_taken() {
                break;
            }
            sleep(PATIENCE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::pending};

    use futures::future::join_all;
    use tokio::time::Instant;

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

    async fn took(wait: impl Future<Output = ()>) -> Duration {
        let begun = Instant::now();
        wait.await;
        begun.elapsed()
    }

    /// The same while the only turn is never given back.
    async fn took_while_taken(turns: &Turns, wait: impl Future<Output = ()>) -> Duration {
        tokio::select! {
            biased;
            () = turns.take(pending()) => unreachable!("it hangs"),
            seen = took(wait) => seen,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_reported_at_once_by_an_idle_machine_waits_on_a_busy_one() {
        let turns = Turns::new(1, LONGEST * 100);
        assert_eq!(took(turns.patience()).await, PATIENCE);
        let (seen, ()) = tokio::join!(took(turns.patience()), turns.take(sleep(PATIENCE * 3 / 2)));
        assert_eq!(seen, PATIENCE * 2);
        assert_eq!(took_while_taken(&turns, turns.patience()).await, PATIENCE * 10);
    }

    #[tokio::test(start_paused = true)]
    async fn what_can_wait_is_done_at_once_by_an_idle_machine_and_not_put_off_for_ever_by_a_busy_one() {
        let turns = Turns::new(1, LONGEST * 100);
        assert_eq!(took(turns.spare()).await, Duration::ZERO);
        let ((), seen) = tokio::join!(biased; turns.take(sleep(PATIENCE * 3 / 2)), took(turns.spare()));
        assert_eq!(seen, PATIENCE * 2);
        assert_eq!(took_while_taken(&turns, turns.spare()).await, PATIENCE * 10);
    }
}
