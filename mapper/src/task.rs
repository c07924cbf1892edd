//! The task of one device: its connection, and the work on it.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::{
    sync::watch,
    time::{sleep, sleep_until, timeout},
};
use tracing::{debug, warn};

use crate::{
    Device, Error, Link, Protocol, Result,
    agent::Agent,
    work::{Next, Work},
};

/// The limit of one step; a device that takes longer hangs.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// The first pause after a failed connection; each further one is twice as long.
const SOON: Duration = Duration::from_millis(100);
/// The longest pause after a failed connection.
const LATE: Duration = Duration::from_secs(30);
/// The pause after a device's state could not be reported.
const STATE_AGAIN: Duration = Duration::from_secs(1);

/// Why a connection ended.
enum Ended {
    /// The device's connection settings have changed.
    Changed,
    /// The connection has failed.
    Failed(Error),
    /// The device was removed.
    Gone,
}

/// Runs until the device's sender is dropped.
pub(crate) async fn run<P: Protocol>(
    protocol: Arc<P>,
    mut device: watch::Receiver<Arc<Device>>,
    agent: Agent,
) {
    let mut wait = SOON;
    let mut state = State {
        agent,
        told: None,
        again_at: Instant::now(),
    };
    loop {
        let current = device.borrow_and_update().clone();
        let ended = match within(protocol.open(&current)).await {
            Ok(link) => {
                serve(
                    link,
                    Work::new(current.clone()),
                    &mut device,
                    &mut state,
                    &mut wait,
                )
                .await
            }
            Err(error) => Ended::Failed(error),
        };
        let error = match ended {
            Ended::Changed => continue,
            Ended::Gone => return,
            Ended::Failed(error) => error,
        };
        warn!(device = current.name, %error, retry_in = ?wait, "device offline; reconnecting");
        state.tell(&current, "offline").await;
        tokio::select! {
            // cancel-safe: sleeping holds no data
            () = sleep(wait.mul_f64(rand::random_range(0.5..1.0))) => {}
            // cancel-safe: an unseen change is kept
            changed = device.changed() => if changed.is_err() { return },
        }
        wait = (wait * 2).min(LATE);
    }
}

async fn serve<L: Link>(
    mut link: L,
    mut work: Work,
    device: &mut watch::Receiver<Arc<Device>>,
    state: &mut State,
    wait: &mut Duration,
) -> Ended {
    // behind a gateway, a connection says nothing about the device itself; a reading does
    let (mut is_online, mut has_read) = (false, false);
    loop {
        match device.has_changed() {
            Ok(false) => {}
            Ok(true) => {
                let newest = device.borrow_and_update().clone();
                if !newest.is_reached_as(work.device()) {
                    return Ended::Changed;
                }
                work.update(newest);
            }
            Err(_) => return Ended::Gone,
        }
        let current = work.device().clone();
        if !is_online && (has_read || current.properties.is_empty()) {
            is_online = true;
            *wait = SOON;
            state.tell(&current, "online").await;
        }
        if state.again_at().is_some_and(|at| at <= Instant::now()) {
            state.catch_up(&current).await;
        }
        match work.next(Instant::now()) {
            Next::Write(index, value) => {
                let Some(property) = current.properties.get(index) else {
                    continue;
                };
                // a write that times out ends the link: its next answer might belong to that write
                let Ok(written) = timeout(STEP_TIMEOUT, link.write(property, &value)).await else {
                    return Ended::Failed(late());
                };
                if let Err(error) = &written {
                    warn!(device = current.name, property = property.name, %error, "failed to write a value");
                }
                work.wrote(index, &value, written.is_ok(), Instant::now());
            }
            Next::Read(index) => {
                let Some(property) = current.properties.get(index) else {
                    continue;
                };
                match within(link.read(property)).await {
                    Ok(value) => work.read(index, value, now_ms(), Instant::now()),
                    Err(error) => return Ended::Failed(error),
                }
                has_read = true;
            }
            Next::Report(readings) => {
                state.catch_up(&current).await;
                let is_done = state.agent.report(&current, &readings).await;
                debug!(
                    device = current.name,
                    count = readings.len(),
                    is_done,
                    "reported"
                );
                work.record_reported(&readings, is_done, Instant::now());
            }
            Next::Wait(until) => {
                let until = until.unwrap_or_else(|| Instant::now() + LATE);
                let until = state.again_at().map_or(until, |at| at.min(until));
                tokio::select! {
                    // cancel-safe: sleeping holds no data
                    () = sleep_until(until.into()) => {}
                    // cancel-safe: an unseen change is kept
                    changed = device.changed() => match changed {
                        // it is read at the beginning of the loop
                        Ok(()) => device.mark_changed(),
                        Err(_) => return Ended::Gone,
                    },
                }
            }
        }
    }
}

/// The device's state, which is reported when it changes, and again until the report has arrived.
struct State {
    agent: Agent,
    /// The current state, and whether the agent knows it.
    told: Option<(&'static str, bool)>,
    /// When a failed report is repeated.
    again_at: Instant,
}

impl State {
    async fn tell(&mut self, device: &Device, state: &'static str) {
        if self.told.is_none_or(|(told, _)| told != state) {
            self.told = Some((state, false));
        }
        self.catch_up(device).await;
    }

    async fn catch_up(&mut self, device: &Device) {
        if let Some((state, false)) = self.told {
            self.told = Some((state, self.agent.report_state(device, state).await));
            self.again_at = Instant::now() + STATE_AGAIN;
        }
    }

    /// Returns when the state is to be reported again; `None` if the agent knows it.
    fn again_at(&self) -> Option<Instant> {
        self.told
            .is_some_and(|(_, is_known)| !is_known)
            .then_some(self.again_at)
    }
}

async fn within<T>(step: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(STEP_TIMEOUT, step)
        .await
        .unwrap_or_else(|_| Err(late()))
}

fn late() -> Error {
    format!("no answer within {STEP_TIMEOUT:?}").into()
}

fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Kind, Property, Settings};

    /// A link whose writes never end, and which must not be used afterwards.
    struct Mute;

    impl Link for Mute {
        async fn read(&mut self, _: &Property) -> Result<String> {
            Err("the link is used after a write was dropped in its middle".into())
        }

        async fn write(&mut self, _: &Property, _: &str) -> Result<()> {
            std::future::pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_is_given_up_ends_the_link() {
        let property = Property {
            name: "t".into(),
            kind: Kind::Int,
            is_read_only: false,
            minimum: String::new(),
            maximum: String::new(),
            unit: String::new(),
            settings: Settings::default(),
            desired: Some("1".into()),
            collect: STEP_TIMEOUT,
            report: STEP_TIMEOUT,
            to_cloud: true,
        };
        let settings = Settings::default();
        let device = Device {
            namespace: "ns".into(),
            name: "d".into(),
            settings,
            properties: vec![property],
        };
        let (_sender, mut devices) = watch::channel(Arc::new(device));
        let work = Work::new(devices.borrow_and_update().clone());
        let agent = Agent::new(Path::new("/nowhere"));
        let mut state = State {
            agent,
            told: None,
            again_at: Instant::now(),
        };
        let ended = serve(Mute, work, &mut devices, &mut state, &mut SOON.clone()).await;
        let Ended::Failed(error) = ended else {
            panic!("the device was not left alone")
        };
        assert_eq!(error.to_string(), late().to_string());
    }
}
