//! Limits how many sandboxes are created at a time to the number of processors. Creating all at once takes longer in total, and
//! the first pod would be ready no sooner than the last.

use std::{num::NonZero, pin::pin, time::Duration};

use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

/// How long a sandbox holds its permit: one that takes longer waits for something else, such as its network.
const MAX_HOLD: Duration = Duration::from_secs(3);
/// Work that takes longer is reported while it runs.
const REPORT_AFTER: Duration = Duration::from_secs(1);
/// Maximum time that deferrable work waits for the creation of sandboxes.
const MAX_DEFERRAL: Duration = Duration::from_secs(30);

/// Permits to create a sandbox, given in the order of requests.
#[derive(Debug)]
pub(crate) struct SandboxLimit(Semaphore);

impl SandboxLimit {
    /// Returns as many permits as this machine has processors.
    pub(crate) fn of_machine() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, NonZero::get))
    }

    fn new(permits: usize) -> Self {
        Self(Semaphore::new(permits))
    }

    /// Runs `work`, which creates a sandbox, as soon as there is a permit.
    pub(super) async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        // the semaphore is never closed; if it were, there would be no limit
        let permit = self.0.acquire().await;
        let mut work = pin!(work);
        if let Ok(done) = timeout(MAX_HOLD, &mut work).await {
            return done;
        }
        drop(permit);
        work.await
    }

    /// Returns when the creation of all sandboxes requested before this call has begun, or after [`MAX_DEFERRAL`].
    pub(crate) async fn wait_for_room(&self) {
        // a timeout is no error
        let _ = timeout(MAX_DEFERRAL, self.0.acquire()).await;
    }

    /// Returns when work that has run since this call should be reported. Reporting each of hundreds of pods that wait for their
    /// sandboxes would delay the creation of those.
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
    async fn concurrent_sandboxes_are_limited() {
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
    async fn beside_work_that_hangs(
        limit: &SandboxLimit,
        wait: impl Future<Output = ()>,
    ) -> Duration {
        let begun = Instant::now();
        clock::select! {
            biased;
            () = limit.run(pending()) => unreachable!("it hangs"),
            () = wait => begun.elapsed(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sandbox_that_hangs_holds_up_others_for_three_seconds() {
        let limit = SandboxLimit::new(1);
        assert_eq!(
            beside_work_that_hangs(&limit, limit.run(async {})).await,
            MAX_HOLD
        );
    }

    #[tokio::test(start_paused = true)]
    async fn deferred_work_waits_for_earlier_sandboxes_with_a_limit() {
        let limit = SandboxLimit::new(1);
        let begun = Instant::now();
        limit.wait_for_room().await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let second = Duration::from_secs(1);
        let behind_another = async {
            tokio::join!(
                limit.run(async { sleep(second).await }),
                limit.wait_for_room()
            );
        };
        assert_eq!(
            beside_work_that_hangs(&limit, behind_another).await,
            MAX_HOLD + second
        );
        let all = async { join_all((0..20).map(|_| limit.run(pending::<()>()))).await };
        let begun = Instant::now();
        clock::select! {
            biased;
            _ = all => unreachable!("they hang"),
            () = limit.wait_until_reportable() => {}
        }
        assert_eq!(begun.elapsed(), REPORT_AFTER + MAX_DEFERRAL);
    }
}
