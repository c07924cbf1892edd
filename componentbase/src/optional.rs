//! Modules without which pods run: one that fails is started again, and never stops the agent.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    Backoff,
    heartbeat::Heartbeat,
    supervise::{Error, Part, Supervisor},
};

/// The waits between two starts.
const INITIAL_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(30);

impl Supervisor {
    /// Starts a part without which pods run: it is started again also when it fails.
    pub fn supervise_optional(
        &mut self,
        name: &'static str,
        part: impl Part,
        shutdown: &CancellationToken,
    ) {
        self.supervise(name, Optional::new(name, part), shutdown);
    }
}

/// A module that is started again when it fails.
#[derive(Debug)]
pub(crate) struct Optional<P> {
    name: &'static str,
    part: P,
}

impl<P> Optional<P> {
    /// Makes `part` optional; `name` is for the log.
    pub(crate) fn new(name: &'static str, part: P) -> Self {
        Self { name, part }
    }
}

impl<P: Part> Part for Optional<P> {
    async fn run(
        &mut self,
        heartbeat: Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), Error> {
        let mut backoff = Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF);
        let mut failures: u32 = 0;
        // the module has a heartbeat of its own
        let _rest = heartbeat.idle();
        loop {
            if failures > 0 {
                info!(module = self.name, failures, "restarting module");
            }
            let Err(error) = self
                .part
                .run(heartbeat.for_loop(self.name), shutdown.clone())
                .await
            else {
                return Ok(());
            };
            failures += 1;
            let retry_in = backoff.next(clock::rng().random());
            warn!(
                module = self.name,
                error = &*error as &dyn std::error::Error,
                ?retry_in,
                "module failed; retrying"
            );
            // cancel-safe: the token stays cancelled
            if shutdown
                .run_until_cancelled(sleep(retry_in))
                .await
                .is_none()
            {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use super::*;

    /// Fails twice, then runs until the shutdown.
    struct FailsTwice(Arc<AtomicU32>);

    impl Part for FailsTwice {
        async fn run(&mut self, _: Heartbeat, shutdown: CancellationToken) -> Result<(), Error> {
            if self.0.fetch_add(1, Ordering::Relaxed) < 2 {
                return Err("no space left on device".into());
            }
            shutdown.cancelled().await;
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn module_that_fails_is_started_again() {
        let (starts, shutdown) = (Arc::<AtomicU32>::default(), CancellationToken::new());
        let mut part = Optional::new("metaserver", FailsTwice(starts.clone()));
        let running = part.run(Heartbeat::unmonitored(), shutdown.clone());
        let stop = async {
            while starts.load(Ordering::Relaxed) < 3 {
                sleep(Duration::from_millis(10)).await;
            }
            shutdown.cancel();
        };
        let (ended, ()) = tokio::join!(running, stop);
        ended.unwrap();
        assert_eq!(starts.load(Ordering::Relaxed), 3);
    }
}
