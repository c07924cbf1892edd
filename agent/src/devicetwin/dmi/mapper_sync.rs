//! Synchronizes one mapper with its devices and models, until it knows them all, and again when they change.
//!
//! Level-triggered: each round sends the difference between what the mapper was sent and what it should know. A call that fails
//! is repeated, with growing waits while the mapper is away.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use clock::Instant;
use componentbase::{Backoff, Heartbeat};
use tokio::{task::JoinError, time::sleep};
use tracing::{debug, info, warn};
use wire::topic::DeviceId;

use super::{
    client::{CallError, Client},
    gather::Gatherer,
    plan::{Step, SyncedState, steps},
    registry::{Registered, Registry},
};
use crate::devicetwin::{Catalogue, DeviceTwin, Devices, ObjectError};

/// The wait after the first call that failed.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(100);
/// The longest wait: a mapper that comes back registers, which ends the wait.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// The most calls that are repeated if the agent is killed between them.
const MAX_UNRECORDED_CALLS: usize = 512;

/// Synchronizes one mapper; see the module.
pub(super) struct MapperSync {
    registered: Registered,
    registry: Registry,
    client: Client,
    gatherer: Gatherer,
    devices: Devices,
    synced: SyncedState,
    /// Devices and models whose current state the mapper has refused; it is sent again when it changes, or after a while.
    refused: BTreeSet<DeviceId>,
}

/// The outcome of a round.
#[derive(Debug, PartialEq, Eq)]
enum RoundOutcome {
    /// The mapper knows everything.
    Complete,
    /// The mapper does not answer, or has refused something, or not everything could be read.
    Retry,
}

impl MapperSync {
    pub(super) fn new(registered: Registered, registry: Registry, twin: &DeviceTwin) -> Self {
        Self {
            client: Client::new(&registered.mapper.socket, registry.calls.clone()),
            gatherer: Gatherer::new(twin.clone(), &registered.mapper.protocol),
            devices: twin.devices(),
            synced: (*registered.synced).clone(),
            refused: BTreeSet::new(),
            registered,
            registry,
        }
    }

    /// Runs until it is dropped, or DeviceTwin has ended. At each wait, what was sent is recorded on disk.
    pub(super) async fn run(mut self, heartbeat: Heartbeat) {
        let mut backoff = Backoff::new(FIRST_RETRY_DELAY, MAX_RETRY_DELAY);
        let rest = heartbeat.idle();
        let Some(mut catalogue) = self.devices.next().await else {
            return;
        };
        drop(rest);
        loop {
            let round = self.round(&catalogue, &heartbeat).await;
            let _rest = heartbeat.idle();
            let changed = match round {
                RoundOutcome::Complete => {
                    backoff.reset();
                    self.devices.next().await
                }
                RoundOutcome::Retry => {
                    clock::select! {
                        // cancel-safe: a catalogue that was not returned is returned the next time
                        changed = self.devices.next() => changed,
                        // cancel-safe: sleeping holds no data
                        () = sleep(backoff.next(clock::rng().random())) => Some(catalogue),
                    }
                }
            };
            match changed {
                Some(newest) => catalogue = newest,
                None => return,
            }
        }
    }

    async fn round(&mut self, catalogue: &Arc<Catalogue>, heartbeat: &Heartbeat) -> RoundOutcome {
        let begun = Instant::now();
        let rest = heartbeat.idle();
        let wanted = self.gatherer.desired_state(catalogue, &self.synced).await;
        drop(rest);
        let plan = steps(&self.synced, &wanted);
        let (count, mut unsaved) = (plan.len(), 0);
        let mut round = if self.gatherer.is_partial() {
            RoundOutcome::Retry
        } else {
            RoundOutcome::Complete
        };
        for step in plan {
            heartbeat.beat();
            match self.execute(&step).await {
                Ok(()) => {
                    self.refused.remove(step.id());
                    self.synced.record_step(&step, &wanted);
                    unsaved += 1;
                }
                Err(failure) => {
                    round = RoundOutcome::Retry;
                    if self.must_stop(&step, &failure) {
                        break;
                    }
                }
            }
            if unsaved == MAX_UNRECORDED_CALLS {
                unsaved = 0;
                self.record_synced().await;
            }
        }
        if unsaved > 0 {
            self.record_synced().await;
        }
        if count > 0 {
            let mapper = &self.registered.mapper;
            debug!(mapper = mapper.name, count, took = ?begun.elapsed(), "devices sent to a mapper");
        }
        round
    }

    /// Reports whether further calls would fail, too. The first refusal of each device is logged.
    fn must_stop(&mut self, step: &Step, failure: &CallError) -> bool {
        let mapper = &self.registered.mapper.name;
        match failure {
            CallError::Unreachable(_) => {
                info!(mapper, error = %failure, "mapper not reachable; sending its devices later");
                true
            }
            CallError::Refused(_) | CallError::NotSent(_) => {
                // a mapper that did not get the call still has the earlier state
                if matches!(failure, CallError::Refused(_)) {
                    self.synced.forget(step);
                }
                if self.refused.insert(step.id().clone()) {
                    warn!(mapper, object = %step.id(), error = %failure, "failed to send device or model to mapper");
                }
                false
            }
        }
    }

    async fn record_synced(&self) {
        if let Err(error) = self
            .registry
            .record_synced(&self.registered, &self.synced)
            .await
        {
            // after the next start of the agent the calls are repeated, which does no harm
            warn!(
                error = &error as &dyn std::error::Error,
                "failed to store the state of a mapper"
            );
        }
    }

    async fn execute(&self, step: &Step) -> Result<(), CallError> {
        let unreadable = |error: ObjectError| {
            CallError::NotSent(format!("cannot read it from the database: {error}"))
        };
        let gone = || CallError::NotSent("the device or its model no longer exists".to_owned());
        match step {
            Step::CreateModel(id) | Step::UpdateModel(id) => {
                let model = self
                    .gatherer
                    .model(id)
                    .await
                    .map_err(unreadable)?
                    .ok_or_else(gone)?;
                match step {
                    Step::CreateModel(_) => self.client.create_model(model).await,
                    _ => self.client.update_model(model).await,
                }
            }
            Step::Register(id) | Step::Update(id) => {
                let (device, _) = self
                    .gatherer
                    .device(id)
                    .await
                    .map_err(unreadable)?
                    .ok_or_else(gone)?;
                match step {
                    Step::Register(_) => self.client.register(device).await,
                    _ => self.client.update(device).await,
                }
            }
            Step::Remove(id) => self.client.remove(id).await,
            Step::RemoveModel(id) => self.client.remove_model(id).await,
        }
    }
}

/// Handles the end of a synchronizer. An ordinary end is that of DeviceTwin, or a newer registration of the mapper. A panic is
/// propagated: otherwise the mapper would get no more calls, unnoticed.
pub(super) fn check_end(ended: Result<(), JoinError>) {
    if let Err(Ok(panic)) = ended.map_err(JoinError::try_into_panic) {
        std::panic::resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_panic_of_a_mapper_sync_is_propagated() {
        let stopped = componentbase::spawn(std::future::pending());
        stopped.abort();
        check_end(stopped.await);
        check_end(componentbase::spawn(async {}).await);
        let panicked = componentbase::spawn(async { panic!("on purpose") }).await;
        let goes_on =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check_end(panicked)))
                .unwrap_err();
        assert_eq!(goes_on.downcast_ref::<&str>(), Some(&"on purpose"));
    }
}
