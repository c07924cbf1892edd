//! One mapper's courier: tells it of its devices and models until it knows them all, and again when they change.
//!
//! Level-triggered: what is told is the difference between what the mapper was told and what is, however it came about. A call
//! that fails is made again, with growing waits while the mapper is away.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{task::JoinError, time::sleep};
use tracing::{debug, info, warn};
use wire::topic::DeviceId;

use super::{
    client::{Client, Failure},
    gather::Gatherer,
    plan::{Known, Step, steps},
    registry::{Registered, Registry},
};
use crate::{
    devicetwin::{Catalogue, DeviceTwin, Devices, Unavailable},
    rt::{Backoff, Heart},
};

/// The first wait after a mapper did not answer.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(100);
/// The longest: a mapper that comes back registers, which ends the wait.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// So many calls are told again at most if the agent ends in their middle.
const NOTE_EVERY: usize = 512;

/// See the module.
pub(super) struct Courier {
    registered: Registered,
    registry: Registry,
    client: Client,
    gatherer: Gatherer,
    devices: Devices,
    told: Known,
    /// What the mapper has refused in this state; it is asked again when it changes, or after a while.
    refused: BTreeSet<DeviceId>,
}

/// How a round ended.
#[derive(Debug, PartialEq, Eq)]
enum Round {
    /// The mapper knows everything.
    Done,
    /// It does not answer, or has refused something; or not everything could be read.
    Again,
}

impl Courier {
    pub(super) fn new(registered: Registered, registry: Registry, twin: &DeviceTwin) -> Self {
        Self {
            client: Client::new(&registered.mapper.socket, registry.calls.clone()),
            gatherer: Gatherer::new(twin.clone(), &registered.mapper.protocol),
            devices: twin.devices(),
            told: (*registered.told).clone(),
            refused: BTreeSet::new(),
            registered,
            registry,
        }
    }

    /// Runs until it is dropped, or DeviceTwin has ended. What was told is on disk at each of its waits.
    pub(super) async fn run(mut self, heart: Heart) {
        let mut backoff = Backoff::new(FIRST_RETRY_DELAY, MAX_RETRY_DELAY);
        let rest = heart.rest();
        let Some(mut catalogue) = self.devices.next().await else { return };
        drop(rest);
        loop {
            let round = self.round(&catalogue, &heart).await;
            let _rest = heart.rest();
            let changed = match round {
                Round::Done => {
                    backoff.reset();
                    self.devices.next().await
                }
                Round::Again => {
                    tokio::select! {
                        // cancel-safe: a catalogue that was not returned is returned the next time
                        changed = self.devices.next() => changed,
                        // cancel-safe: sleeping holds no data
                        () = sleep(backoff.next(rand::random())) => Some(catalogue),
                    }
                }
            };
            match changed {
                Some(newest) => catalogue = newest,
                None => return,
            }
        }
    }

    async fn round(&mut self, catalogue: &Arc<Catalogue>, heart: &Heart) -> Round {
        let begun = Instant::now();
        let rest = heart.rest();
        let wanted = self.gatherer.wanted(catalogue, &self.told).await;
        drop(rest);
        let plan = steps(&self.told, &wanted);
        let (count, mut unsaved) = (plan.len(), 0);
        let mut round = if self.gatherer.is_partial() { Round::Again } else { Round::Done };
        for step in plan {
            heart.beat();
            match self.carry_out(&step).await {
                Ok(()) => {
                    self.refused.remove(step.id());
                    self.told.carried_out(&step, &wanted);
                    unsaved += 1;
                }
                Err(failure) => {
                    round = Round::Again;
                    if self.is_over(&step, &failure) {
                        break;
                    }
                }
            }
            if unsaved == NOTE_EVERY {
                unsaved = 0;
                self.note().await;
            }
        }
        if unsaved > 0 {
            self.note().await;
        }
        if count > 0 {
            let mapper = &self.registered.mapper;
            debug!(mapper = mapper.name, count, took = ?begun.elapsed(), "a mapper was told of its devices");
        }
        round
    }

    /// Whether no other call would succeed. The first refusal of each device is told in the log.
    fn is_over(&mut self, step: &Step, failure: &Failure) -> bool {
        let mapper = &self.registered.mapper.name;
        match failure {
            Failure::Away(_) => {
                info!(mapper, %failure, "devices wait for their mapper");
                true
            }
            Failure::Refused(_) | Failure::Unsent(_) => {
                // one that has not heard of the step knows what it was told before
                if matches!(failure, Failure::Refused(_)) {
                    self.told.forget(step);
                }
                if self.refused.insert(step.id().clone()) {
                    warn!(mapper, ?step, %failure, "a device or model waits for its mapper");
                }
                false
            }
        }
    }

    async fn note(&self) {
        if let Err(error) = self.registry.note(&self.registered, &self.told).await {
            // the mapper is told again after the next start of the agent, which does no harm
            warn!(error = &error as &dyn std::error::Error, "what a mapper was told could not be kept");
        }
    }

    async fn carry_out(&self, step: &Step) -> Result<(), Failure> {
        let unreadable = |error: Unavailable| Failure::Unsent(format!("it cannot be read: {error}"));
        let gone = || Failure::Unsent("it, or the model of it, has gone".to_owned());
        match step {
            Step::CreateModel(id) | Step::UpdateModel(id) => {
                let model = self.gatherer.model(id).await.map_err(unreadable)?.ok_or_else(gone)?;
                match step {
                    Step::CreateModel(_) => self.client.create_model(model).await,
                    _ => self.client.update_model(model).await,
                }
            }
            Step::Register(id) | Step::Update(id) => {
                let (device, _) = self.gatherer.device(id).await.map_err(unreadable)?.ok_or_else(gone)?;
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

/// One that has ended did so with DeviceTwin, or since a newer registration has taken its place. The panic of one goes on: its mapper
/// would be told of nothing any more, and nobody would know.
pub(super) fn ended(courier: Result<(), JoinError>) {
    if let Err(Ok(panic)) = courier.map_err(JoinError::try_into_panic) {
        std::panic::resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_panic_of_a_courier_goes_on_and_an_ordinary_end_does_not() {
        let stopped = tokio::spawn(std::future::pending());
        stopped.abort();
        ended(stopped.await);
        ended(tokio::spawn(async {}).await);
        let panicked = tokio::spawn(async { panic!("on purpose") }).await;
        let goes_on = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ended(panicked))).unwrap_err();
        assert_eq!(goes_on.downcast_ref::<&str>(), Some(&"on purpose"));
    }
}
