//! Named tasks under one roof: the first that ends on its own, by return or by panic, ends them all, and its name is told. One that
//! hangs is started anew, and the others go on.

use std::{future::Future, time::Duration};

use tokio::{task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::heart::{HANG_LIMIT, Heart, Pulse, Vitals};

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// Time between two looks for tasks that hang.
const CHECK: Duration = Duration::from_secs(10);
/// A task that could not be started anew by then holds its thread, and nothing else can be done for it.
const HOPELESS: Duration = HANG_LIMIT.saturating_add(Duration::from_secs(60));

/// A task that can be started anew.
pub(crate) trait Part: Send + 'static {
    /// Runs until `shutdown`. It may be dropped at any of its waits and called again: what it was at is then lost, and what counts is
    /// in the store, or is sent again by whoever sent it. `heart` is its first loop's.
    fn run(
        &mut self,
        heart: Heart,
        shutdown: CancellationToken,
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

/// Runs named tasks until shutdown, or until one of them ends before it.
#[derive(Debug, Default)]
pub(crate) struct Supervisor {
    tasks: JoinSet<(&'static str, Result<(), Error>)>,
    names: Vec<(tokio::task::Id, &'static str)>,
    pulses: Vec<(&'static str, Pulse)>,
    vitals: Vitals,
}

/// A task ended although nobody asked it to.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// It returned.
    #[error("{0} stopped on its own; the log above it says why")]
    Returned(&'static str),
    /// It failed in a way that only a person can mend.
    #[error("{name} gave up")]
    Failed {
        /// The task.
        name: &'static str,
        /// Why.
        source: Error,
    },
    /// It panicked: a defect of this program.
    #[error("{name} failed: {message}; please report this with the log")]
    Panicked {
        /// The task.
        name: &'static str,
        /// What the panic said.
        message: String,
    },
    /// It holds its thread, so that it cannot be started anew: a defect of this program.
    #[error("{0} hangs and cannot be started anew; please report this with the log")]
    Hangs(&'static str),
}

impl Supervisor {
    /// No tasks yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// How the parts are.
    pub(crate) fn vitals(&self) -> Vitals {
        self.vitals.clone()
    }

    /// Starts `part` under `name`, and starts it anew when it hangs. It ends with `shutdown`.
    pub(crate) fn keep(&mut self, name: &'static str, part: impl Part, shutdown: &CancellationToken) {
        let pulse = self.vitals.part(name);
        self.pulses.push((name, pulse.clone()));
        self.spawn(name, keep(name, part, pulse, shutdown.clone()));
    }

    /// Starts `task` under `name`.
    fn spawn(&mut self, name: &'static str, task: impl Future<Output = Result<(), Error>> + Send + 'static) {
        let handle = self.tasks.spawn(async move { (name, task.await) });
        self.names.push((handle.id(), name));
    }

    /// Waits until `shutdown` is cancelled and every task has ended, or until one ends before that; then `shutdown` is
    /// cancelled for the others, they are waited for, and the first that ended is the error. One that hangs for good is not waited for.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) -> Result<(), Ended> {
        let mut first = None;
        loop {
            let ended = tokio::select! {
                // cancel-safe: a task that has ended stays in the set until it is returned
                ended = self.tasks.join_next() => ended,
                // cancel-safe: sleeping holds no data
                () = sleep(CHECK) => {
                    let hopeless = |pulse: &Pulse| pulse.hangs().is_some_and(|(_, spent)| spent >= HOPELESS);
                    match self.pulses.iter().find(|(_, pulse)| hopeless(pulse)) {
                        Some((name, _)) => {
                            shutdown.cancel();
                            return Err(Ended::Hangs(name));
                        }
                        None => continue,
                    }
                }
            };
            let Some(ended) = ended else { break };
            if !shutdown.is_cancelled() {
                first = Some(match ended {
                    Ok((name, Ok(()))) => Ended::Returned(name),
                    Ok((name, Err(source))) => Ended::Failed { name, source },
                    Err(error) => self.panicked(&error),
                });
                shutdown.cancel();
            }
        }
        first.map_or(Ok(()), Err)
    }

    fn panicked(&self, error: &tokio::task::JoinError) -> Ended {
        let name = self.names.iter().find(|(id, _)| *id == error.id()).map_or("a task", |(_, name)| *name);
        Ended::Panicked { name, message: error.to_string() }
    }
}

async fn keep(
    name: &'static str,
    mut part: impl Part,
    pulse: Pulse,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    loop {
        let stop = shutdown.child_token();
        // what the part has started beside itself ends with it
        let _ends_with_it = stop.clone().drop_guard();
        let heart = pulse.heart("main");
        let (at, spent) = tokio::select! {
            // cancel-safe: the part says so
            ended = part.run(heart, stop) => return ended,
            // cancel-safe: it only looks
            hangs = hangs(&pulse) => hangs,
        };
        if shutdown.is_cancelled() {
            return Ok(());
        }
        let restarts = pulse.restarted();
        error!(
            part = name,
            at,
            seconds = spent.as_secs(),
            restarts,
            "a part of the agent hangs and is started anew; please report this with the log"
        );
    }
}

/// Waits until a loop is past its deadline.
async fn hangs(pulse: &Pulse) -> (&'static str, Duration) {
    loop {
        sleep(CHECK).await;
        if let Some(hangs) = pulse.hangs() {
            return hangs;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::pending,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use tokio::time::{Instant, timeout};

    use super::*;

    /// Hangs the first time, after a long wait for work; then it works.
    struct Stuck {
        runs: Arc<AtomicUsize>,
        stops: Vec<CancellationToken>,
    }

    impl Part for Stuck {
        async fn run(&mut self, heart: Heart, shutdown: CancellationToken) -> Result<(), Error> {
            let is_first = self.runs.fetch_add(1, Ordering::Relaxed) == 0;
            assert!(self.stops.iter().all(CancellationToken::is_cancelled), "what was beside it has ended");
            self.stops.push(shutdown.clone());
            let rest = heart.rest();
            sleep(HANG_LIMIT * 3).await;
            drop(rest);
            if is_first {
                pending::<()>().await;
            }
            let _rest = heart.rest();
            shutdown.cancelled().await;
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_hangs_is_started_anew_within_two_minutes_and_the_others_go_on() {
        let (shutdown, mut supervisor) = (CancellationToken::new(), Supervisor::new());
        let (runs, vitals) = (Arc::<AtomicUsize>::default(), supervisor.vitals());
        supervisor.keep("stuck", Stuck { runs: runs.clone(), stops: Vec::new() }, &shutdown);
        let stop = shutdown.clone();
        supervisor.spawn("patient", async move {
            stop.cancelled().await;
            Ok(())
        });
        let mut running = tokio::spawn(supervisor.run(shutdown.clone()));
        sleep(HANG_LIMIT * 3 + Duration::from_secs(65)).await;
        assert_eq!(vitals.read()[0].stuck.map(|(at, _)| at), Some("main"), "health names it");
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        let hung = Instant::now() - Duration::from_secs(65);
        while runs.load(Ordering::Relaxed) < 2 {
            sleep(Duration::from_secs(1)).await;
        }
        assert!(hung.elapsed() < Duration::from_secs(120), "{:?}", hung.elapsed());
        assert!(timeout(HANG_LIMIT * 20, &mut running).await.is_err(), "all go on");
        assert_eq!(runs.load(Ordering::Relaxed), 2);
        assert_eq!((vitals.read()[0].restarts, vitals.read()[0].stuck), (1, None));
        shutdown.cancel();
        running.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_cannot_be_started_anew_ends_the_program_by_name() {
        let (shutdown, mut supervisor) = (CancellationToken::new(), Supervisor::new());
        // as one that holds its thread: nobody drops it
        let pulse = supervisor.vitals.part("held");
        let heart = pulse.heart("main");
        supervisor.pulses.push(("held", pulse));
        supervisor.spawn("held", async move {
            heart.beat();
            pending().await
        });
        let begun = Instant::now();
        let error = supervisor.run(shutdown.clone()).await.unwrap_err();
        assert!(matches!(error, Ended::Hangs("held")), "{error}");
        assert!(begun.elapsed() < HOPELESS + CHECK * 2, "{:?}", begun.elapsed());
        assert!(shutdown.is_cancelled());
    }

    #[tokio::test]
    async fn the_first_task_that_ends_early_ends_the_others_and_is_named() {
        let shutdown = CancellationToken::new();
        let mut supervisor = Supervisor::new();
        let token = shutdown.clone();
        supervisor.spawn("patient", async move {
            token.cancelled().await;
            Ok(())
        });
        supervisor.spawn("hasty", async { Ok(()) });
        let error = supervisor.run(shutdown).await.unwrap_err();
        assert!(matches!(error, Ended::Returned("hasty")), "{error}");
    }

    #[tokio::test]
    async fn a_panic_is_told_with_the_name_of_its_task() {
        let mut supervisor = Supervisor::new();
        supervisor.spawn("fragile", async { panic!("on purpose") });
        let error = supervisor.run(CancellationToken::new()).await.unwrap_err().to_string();
        assert!(error.starts_with("fragile failed:") && error.contains("on purpose"), "{error}");
    }

    #[tokio::test]
    async fn shutdown_is_no_error() {
        let shutdown = CancellationToken::new();
        let mut supervisor = Supervisor::new();
        let token = shutdown.clone();
        supervisor.spawn("patient", async move {
            token.cancelled().await;
            Ok(())
        });
        shutdown.cancel();
        supervisor.run(shutdown).await.unwrap();
    }
}
