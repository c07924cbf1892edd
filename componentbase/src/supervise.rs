//! Supervises named tasks: the first that ends on its own, by return or by panic, ends all of them, and its name is reported. A
//! task that hangs is restarted, and the others go on. Only a task that blocks its thread cannot be restarted: then the program
//! is. Time in which the process stood still counts for no task.

use std::{future::Future, time::Duration};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::{
    heartbeat::{HANG_LIMIT, HealthMonitor, Heartbeat, PartMonitor},
    spawn::in_span,
};

/// Why a module failed.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// How often tasks are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// How long a task may hang: beyond it, it blocks its thread and cannot be restarted.
const MAX_HANG: Duration = HANG_LIMIT.saturating_add(Duration::from_secs(60));

/// How long the other tasks may take to end after one has failed.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A task that can be restarted.
pub trait Part: Send + 'static {
    /// Runs until `shutdown`. The future may be dropped at any await point and the method called again: work in progress is
    /// lost, and everything that matters is in the store, or is sent again by its sender. `heartbeat` is the heartbeat of its first
    /// loop.
    fn run(
        &mut self,
        heartbeat: Heartbeat,
        shutdown: CancellationToken,
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

/// Runs named tasks until shutdown, or until one of them ends before it.
#[derive(Debug, Default)]
pub struct Supervisor {
    tasks: JoinSet<(&'static str, Result<(), Error>)>,
    names: Vec<(tokio::task::Id, &'static str)>,
    monitors: Vec<(&'static str, PartMonitor)>,
    vitals: HealthMonitor,
}

/// A task that ended before the shutdown.
#[derive(Debug, thiserror::Error)]
pub enum UnexpectedEnd {
    /// It returned.
    #[error("{0} stopped unexpectedly; the log lines above show the reason")]
    Returned(&'static str),
    /// It failed in a way that needs a person.
    #[error("{name} failed permanently")]
    Failed {
        /// The name of the task.
        name: &'static str,
        /// The error.
        source: Error,
    },
    /// It panicked: a defect of this program.
    #[error("{name} failed: {message}; please report this with the log")]
    Panicked {
        /// The name of the task.
        name: &'static str,
        /// The panic's message.
        message: String,
    },
    /// It blocks its thread and cannot be restarted: a defect of this program.
    #[error("{0} blocks its thread and cannot be restarted; please report this with the log")]
    Hangs(&'static str),
}

impl Supervisor {
    /// Creates a supervisor without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the health of the modules.
    pub fn vitals(&self) -> HealthMonitor {
        self.vitals.clone()
    }

    /// Starts `part` under `name`, and restarts it when it hangs. It ends with `shutdown`.
    pub fn supervise(&mut self, name: &'static str, part: impl Part, shutdown: &CancellationToken) {
        let monitor = self.vitals.part(name);
        self.monitors.push((name, monitor.clone()));
        let running = run_supervised(name, Box::new(part), monitor, shutdown.clone());
        self.spawn(name, running);
    }

    /// Starts `task` under `name`.
    fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), Error>> + Send + 'static,
    ) {
        let handle = self.tasks.spawn(in_span(async move { (name, task.await) }));
        self.names.push((handle.id(), name));
    }

    /// Waits until `shutdown` is cancelled and every task has ended. If a task ends before, cancels `shutdown` for the others,
    /// waits for them up to ten seconds, and returns the first one as the error. A task that blocks its thread is not awaited.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), UnexpectedEnd> {
        let mut first = None;
        let mut limit = None;
        loop {
            let ended = clock::select! {
                // cancel-safe: a finished task stays in the set until it is returned
                ended = self.tasks.join_next_with_id() => ended,
                // cancel-safe: nobody is awaited any more
                () = sleep_until(limit.unwrap_or_else(Instant::now)), if limit.is_some() => {
                    let names: Vec<_> = self.names.iter().map(|(_, name)| *name).collect();
                    warn!(parts = ?names, seconds = STOP_LIMIT.as_secs(), "shutdown timeout exceeded: modules still run; please report this with the log");
                    break;
                }
                // cancel-safe: sleeping holds no data
                () = sleep(CHECK_INTERVAL) => {
                    let hopeless = |monitor: &PartMonitor| monitor.hung_loop().is_some_and(|(_, spent)| spent >= MAX_HANG);
                    match self.monitors.iter().find(|(_, monitor)| hopeless(monitor)) {
                        Some((name, _)) => {
                            shutdown.cancel();
                            return Err(UnexpectedEnd::Hangs(name));
                        }
                        None => continue,
                    }
                }
            };
            let Some(ended) = ended else { break };
            let id = match &ended {
                Ok((id, _)) => *id,
                Err(error) => error.id(),
            };
            if !shutdown.is_cancelled() {
                first = Some(match ended {
                    Ok((_, (name, Ok(())))) => UnexpectedEnd::Returned(name),
                    Ok((_, (name, Err(source)))) => UnexpectedEnd::Failed { name, source },
                    Err(error) => self.panic_end(&error),
                });
                limit = Some(Instant::now() + STOP_LIMIT);
                shutdown.cancel();
            }
            self.names.retain(|(known, _)| *known != id);
        }
        first.map_or(Ok(()), Err)
    }

    fn panic_end(&self, error: &tokio::task::JoinError) -> UnexpectedEnd {
        let name = self
            .names
            .iter()
            .find(|(id, _)| *id == error.id())
            .map_or("a task", |(_, name)| *name);
        UnexpectedEnd::Panicked {
            name,
            message: error.to_string(),
        }
    }
}

async fn run_supervised(
    name: &'static str,
    mut part: Box<impl Part>,
    monitor: PartMonitor,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    loop {
        let stop = shutdown.child_token();
        // tasks that the part has started end with it
        let _ends_with_it = stop.clone().drop_guard();
        let heartbeat = monitor.heartbeat("main");
        let (at, spent) = clock::select! {
            // cancel-safe: the trait requires it
            // Boxed: each future around it would keep space for it.
            ended = Box::pin(part.run(heartbeat, stop)) => return ended,
            // cancel-safe: it only reads
            hangs = wait_until_hung(&monitor) => hangs,
        };
        if shutdown.is_cancelled() {
            return Ok(());
        }
        let restarts = monitor.record_restart();
        error!(
            part = name,
            at,
            seconds = spent.as_secs(),
            restarts,
            "module hangs; restarting it; please report this with the log"
        );
    }
}

/// Waits until a loop is past its deadline.
async fn wait_until_hung(monitor: &PartMonitor) -> (&'static str, Duration) {
    loop {
        sleep(CHECK_INTERVAL).await;
        if let Some(hangs) = monitor.hung_loop() {
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

    use tokio::time::timeout;

    use super::*;

    /// Hangs in its first run, after a long wait for work; works in the second.
    struct Stuck {
        runs: Arc<AtomicUsize>,
        stops: Vec<CancellationToken>,
    }

    impl Part for Stuck {
        async fn run(
            &mut self,
            heartbeat: Heartbeat,
            shutdown: CancellationToken,
        ) -> Result<(), Error> {
            let is_first = self.runs.fetch_add(1, Ordering::Relaxed) == 0;
            assert!(
                self.stops.iter().all(CancellationToken::is_cancelled),
                "what was beside it has ended"
            );
            self.stops.push(shutdown.clone());
            let rest = heartbeat.idle();
            sleep(HANG_LIMIT * 3).await;
            drop(rest);
            if is_first {
                pending::<()>().await;
            }
            let _rest = heartbeat.idle();
            shutdown.cancelled().await;
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_part_is_restarted_within_two_minutes_and_the_others_go_on() {
        let (shutdown, mut supervisor) = (CancellationToken::new(), Supervisor::new());
        let (runs, vitals) = (Arc::<AtomicUsize>::default(), supervisor.vitals());
        supervisor.supervise(
            "stuck",
            Stuck {
                runs: runs.clone(),
                stops: Vec::new(),
            },
            &shutdown,
        );
        let stop = shutdown.clone();
        supervisor.spawn("patient", async move {
            stop.cancelled().await;
            Ok(())
        });
        let mut running = tokio::spawn(supervisor.run(shutdown.clone()));
        sleep(HANG_LIMIT * 3 + Duration::from_secs(65)).await;
        assert_eq!(
            vitals.read()[0].stuck.map(|(at, _)| at),
            Some("main"),
            "health names it"
        );
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        let hung = Instant::now() - Duration::from_secs(65);
        while runs.load(Ordering::Relaxed) < 2 {
            sleep(Duration::from_secs(1)).await;
        }
        assert!(
            hung.elapsed() < Duration::from_secs(120),
            "{:?}",
            hung.elapsed()
        );
        assert!(
            timeout(HANG_LIMIT * 20, &mut running).await.is_err(),
            "all go on"
        );
        assert_eq!(runs.load(Ordering::Relaxed), 2);
        assert_eq!(
            (vitals.read()[0].restarts, vitals.read()[0].stuck),
            (1, None)
        );
        shutdown.cancel();
        running.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_cannot_be_restarted_ends_the_program() {
        let (shutdown, mut supervisor) = (CancellationToken::new(), Supervisor::new());
        // as a task that blocks its thread: it is not dropped
        let monitor = supervisor.vitals.part("held");
        let heartbeat = monitor.heartbeat("main");
        supervisor.monitors.push(("held", monitor));
        supervisor.spawn("held", async move {
            heartbeat.beat();
            pending().await
        });
        let begun = Instant::now();
        let error = supervisor.run(shutdown.clone()).await.unwrap_err();
        assert!(matches!(error, UnexpectedEnd::Hangs("held")), "{error}");
        assert!(
            begun.elapsed() < MAX_HANG + CHECK_INTERVAL * 2,
            "{:?}",
            begun.elapsed()
        );
        assert!(shutdown.is_cancelled());
    }

    /// Needs most of a minute for each piece of work.
    struct Slow;

    impl Part for Slow {
        async fn run(
            &mut self,
            heartbeat: Heartbeat,
            shutdown: CancellationToken,
        ) -> Result<(), Error> {
            while !shutdown.is_cancelled() {
                heartbeat.beat();
                sleep(Duration::from_secs(50)).await;
            }
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_stood_still_restarts_and_ends_no_part() {
        let (shutdown, mut supervisor) = (CancellationToken::new(), Supervisor::new());
        let vitals = supervisor.vitals();
        supervisor.supervise("slow", Slow, &shutdown);
        let running = tokio::spawn(supervisor.run(shutdown.clone()));
        for _ in 0..5 {
            sleep(Duration::from_secs(25)).await;
            // all timers are late at once, as after SIGSTOP or in a machine without memory
            tokio::time::advance(MAX_HANG * 4).await;
        }
        sleep(MAX_HANG * 2).await;
        assert_eq!(
            (vitals.read()[0].restarts, vitals.read()[0].stuck),
            (0, None)
        );
        assert!(!running.is_finished() && !shutdown.is_cancelled());
        shutdown.cancel();
        running.await.unwrap().unwrap();
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
        assert!(matches!(error, UnexpectedEnd::Returned("hasty")), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_stop_keeps_no_failure_back() {
        let mut supervisor = Supervisor::new();
        supervisor.spawn("deaf", pending());
        supervisor.spawn("hasty", async { Err("on purpose".into()) });
        let begun = Instant::now();
        let error = supervisor.run(CancellationToken::new()).await.unwrap_err();
        assert!(
            matches!(error, UnexpectedEnd::Failed { name: "hasty", .. }),
            "{error}"
        );
        assert!(begun.elapsed() <= STOP_LIMIT, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn a_panic_is_reported_with_the_name_of_its_task() {
        let mut supervisor = Supervisor::new();
        supervisor.spawn("fragile", async { panic!("on purpose") });
        let error = supervisor
            .run(CancellationToken::new())
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("fragile failed:") && error.contains("on purpose"),
            "{error}"
        );
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
