//! Turns: what costs the machine much is done for a few pods at a time. All at once would take longer in all, and the first pod
//! would be ready no sooner than the last.
//!
//! As many have a turn as there are processors. More would only take them from each other: on two processors a hundred pods took 16.4 s
//! with eight turns, 15.3 s with four, 14.4 s with three, and with two no more than with three. What waits for something else, such
//! as its network, leaves processors idle, and then it needs no turn.

use std::{num::NonZero, time::Duration};

use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};

use crate::edged::stats::{busy_nanos, idle};

/// How often those who have a turn are looked at.
const LOOK: Duration = Duration::from_millis(250);
/// What the processors may be idle between two looks: above it, whoever has a turn waits, and others need not wait for it.
const IDLE: f64 = 0.25;
/// What takes longer is waiting, whatever else the processors do.
const LONGEST: Duration = Duration::from_secs(3);
/// What takes longer is reported while it goes on …
const PATIENCE: Duration = Duration::from_secs(1);
/// … or after so many times as long where all turns are taken: each report of hundreds takes from the time in which pods could start.
const MOST_PATIENCE: usize = 30;

/// Whose turn it is; first come, first served.
#[derive(Debug)]
pub(crate) struct Turns {
    free: Semaphore,
    longest: Duration,
    processors: usize,
    /// What all processors have done since some time, in nanoseconds, if it is known.
    busy: fn() -> Option<u64>,
}

impl Turns {
    /// As many at a time as this machine's processors serve well.
    pub(crate) fn of_machine() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self { free: Semaphore::new(processors), longest: LONGEST, processors, busy: busy_nanos }
    }

    /// Does `work` when it is its turn. A turn ends with the work, or before it when that waits or takes long.
    pub(super) async fn take<T>(&self, work: impl Future<Output = T>) -> T {
        // nobody closes the semaphore; if somebody did, nothing would have to wait
        let turn = self.free.acquire().await;
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            // cancel-safe: the work goes on below, and a look that is not finished is worth nothing
            done = &mut work => return done,
            _ = timeout(self.longest, self.processors_are_idle()) => {}
        }
        drop(turn);
        work.await
    }

    /// Ends when the processors were idle between two looks.
    async fn processors_are_idle(&self) {
        loop {
            let (begun, before) = (Instant::now(), (self.busy)());
            sleep(LOOK).await;
            let known = before.zip((self.busy)());
            if known.is_some_and(|(before, now)| idle(before, now, begun.elapsed(), self.processors) > IDLE) {
                return;
            }
        }
    }

    /// Whether all turns are taken.
    fn are_taken(&self) -> bool {
        self.free.available_permits() == 0
    }

    /// Ends when there is time for what can wait: not all turns are taken, and where they were, it is a while since; or it has
    /// waited long.
    pub(crate) async fn spare(&self) {
        if self.are_taken() {
            self.free_or_after(MOST_PATIENCE - 1).await;
            // whoever had the last turns has still to start containers
            sleep(PATIENCE).await;
        }
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

    fn turns(at_once: usize, longest: Duration) -> Turns {
        Turns { free: Semaphore::new(at_once), longest, processors: 2, busy: || None }
    }

    #[tokio::test]
    async fn only_so_many_work_at_the_same_time() {
        let (turns, now, most) = (turns(3, LONGEST), Cell::new(0), Cell::new(0));
        let work = async || {
            now.set(now.get() + 1);
            most.set(most.get().max(now.get()));
            tokio::task::yield_now().await;
            now.set(now.get() - 1);
        };
        join_all((0..20).map(|_| turns.take(work()))).await;
        assert_eq!((now.get(), most.get()), (0, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_hangs_holds_up_nobody_for_ever() {
        let turns = turns(1, LONGEST);
        assert_eq!(took_while_taken(&turns, turns.take(async {})).await, LONGEST);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_leaves_processors_idle_holds_up_others_until_it_is_looked_at() {
        let turns = Turns { busy: || Some(0), ..turns(1, LONGEST) };
        assert_eq!(took_while_taken(&turns, turns.take(async {})).await, LOOK);
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
        let turns = turns(1, LONGEST * 100);
        assert_eq!(took(turns.patience()).await, PATIENCE);
        let (seen, ()) = tokio::join!(took(turns.patience()), turns.take(sleep(PATIENCE * 3 / 2)));
        assert_eq!(seen, PATIENCE * 2);
        assert_eq!(took_while_taken(&turns, turns.patience()).await, PATIENCE * 30);
    }

    #[tokio::test(start_paused = true)]
    async fn what_can_wait_is_done_at_once_by_an_idle_machine_and_not_put_off_for_ever_by_a_busy_one() {
        let turns = turns(1, LONGEST * 100);
        assert_eq!(took(turns.spare()).await, Duration::ZERO);
        let ((), seen) = tokio::join!(biased; turns.take(sleep(PATIENCE * 3 / 2)), took(turns.spare()));
        assert_eq!(seen, PATIENCE * 3);
        assert_eq!(took_while_taken(&turns, turns.spare()).await, PATIENCE * 30);
    }
}
