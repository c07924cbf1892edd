//! How many sandboxes are made at a time: as many as there are processors. All at once would take longer in all, and the first pod
//! would be ready no sooner than the last.

use std::{num::NonZero, pin::pin, time::Duration};

use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

/// A sandbox that takes longer waits for something else, such as its network: it gives its permit back.
const MAX_HOLD: Duration = Duration::from_secs(3);
/// What takes longer is reported while it goes on.
const REPORT_AFTER: Duration = Duration::from_secs(1);
/// What can wait until the machine has made all sandboxes waits no longer than this.
const MAX_DEFERRAL: Duration = Duration::from_secs(30);

/// Permits to make a sandbox; first come, first served.
#[derive(Debug)]
pub(crate) struct SandboxLimit(Semaphore);

impl SandboxLimit {
    /// As many as this machine has processors.
    pub(crate) fn of_machine() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, NonZero::get))
    }

    fn new(permits: usize) -> Self {
        Self(Semaphore::new(permits))
    }

    /// Makes a sandbox with `work` as soon as there is a permit.
    pub(super) async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        // nobody closes the semaphore; if somebody did, nothing would have to wait
        let permit = self.0.acquire().await;
        let mut work = pin!(work);
        if let Ok(done) = timeout(MAX_HOLD, &mut work).await {
            return done;
        }
        drop(permit);
        work.await
    }

    /// Ends when all sandboxes that were waited for before this call have been begun; after [`MAX_DEFERRAL`] in any case.
    pub(crate) async fn wait_for_room(&self) {
        // whether it has waited for long makes no difference
        let _ = timeout(MAX_DEFERRAL, self.0.acquire()).await;
    }

    /// Ends when work that goes on since this was called is worth a report: a report of each of hundreds of pods that wait for
    /// their sandboxes takes from the time in which those could be made.
    pub(super) async fn wait_until_reportable(&self) {
        sleep(REPORT_AFTER).await;
        self.wait_for_room().await;
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::pending};

    use futures::future::join_all;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test]
    async fn only_so_many_are_made_at_the_same_time() {
        let (limit, now, most) = (SandboxLimit::new(3), Cell::new(0), Cell::new(0));
        let work = async || {
            now.set(now.get() + 1);
            most.set(most.get().max(now.get()));
            tokio::task::yield_now().await;
            now.set(now.get() - 1);
        };
        join_all((0..20).map(|_| limit.run(work()))).await;
        assert_eq!((now.get(), most.get()), (0, 3));
    }

    /// How long `wait` takes while the only permit's work hangs.
    async fn beside_work_that_hangs(limit: &SandboxLimit, wait: impl Future<Output = ()>) -> Duration {
        let begun = Instant::now();
        tokio::select! {
            biased;
            () = limit.run(pending()) => unreachable!("it hangs"),
            () = wait => begun.elapsed(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sandbox_that_hangs_holds_up_others_for_three_seconds() {
        let limit = SandboxLimit::new(1);
        assert_eq!(beside_work_that_hangs(&limit, limit.run(async {})).await, MAX_HOLD);
    }

    #[tokio::test(start_paused = true)]
    async fn what_can_wait_waits_for_the_sandboxes_before_it_and_not_for_ever() {
        let limit = SandboxLimit::new(1);
        let begun = Instant::now();
        limit.wait_for_room().await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let second = Duration::from_secs(1);
        let behind_another = async {
            tokio::join!(limit.run(async { sleep(second).await }), limit.wait_for_room());
        };
        assert_eq!(beside_work_that_hangs(&limit, behind_another).await, MAX_HOLD + second);
        let all = async { join_all((0..20).map(|_| limit.run(pending::<()>()))).await };
        let begun = Instant::now();
        tokio::select! {
            biased;
            _ = all => unreachable!("they hang"),
            () = limit.wait_until_reportable() => {}
        }
        assert_eq!(begun.elapsed(), REPORT_AFTER + MAX_DEFERRAL);
    }
}
