//! Detects modules that hang: each loop of a module says when it waits for work, and every other piece of work has a deadline.
//! A module with a loop past its deadline is restarted by [`Supervisor`](super::Supervisor), and named by `/healthz`.
//!
//! There is no timer: a loop records the time when it starts work, and removes it when it is done. A loop that waits, however
//! long, is healthy. The time is that of a [`RunClock`]: a period in which the machine or the process stood still is nobody's
//! fault.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use limits::RunClock;
use parking_lot::Mutex;

use super::Metric;

/// How long one piece of work may take. The longest without a wait in between are calls of the cloud, ten seconds, and writes
/// to a slow disk.
pub(crate) const HANG_LIMIT: Duration = Duration::from_secs(90);
/// The duration of one piece of work from which `/healthz` names the module; many writes to a slow disk.
pub(crate) const SUSPECT_LIMIT: Duration = Duration::from_secs(60);

/// The loops of each module, by the module's name.
type Parts = BTreeMap<&'static str, Arc<Mutex<Loops>>>;

/// The health of all modules; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct HealthMonitor {
    parts: Arc<Mutex<Parts>>,
    clock: Arc<RunClock>,
}

/// The health of one module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartHealth {
    /// The name of the module.
    pub part: &'static str,
    /// How often it was restarted because it hung.
    pub restarts: u64,
    /// The loop that has been at one piece of work for longer than [`SUSPECT_LIMIT`], and for how long.
    pub stuck: Option<(&'static str, Duration)>,
}

/// The loops of a module.
#[derive(Debug)]
struct Loops {
    /// The clock of all modules.
    clock: Arc<RunClock>,
    /// The number of the next loop; two loops may have the same name.
    next: u64,
    /// The working loops: their name, the start of the work, and how much longer than [`HANG_LIMIT`] it may take.
    working: BTreeMap<u64, (&'static str, Duration, Duration)>,
    restarts: u64,
}

impl Loops {
    fn new(clock: Arc<RunClock>) -> Self {
        Self {
            clock,
            next: 0,
            working: BTreeMap::new(),
            restarts: 0,
        }
    }

    /// Returns the loop with the longest-running piece of work.
    fn longest(&self) -> Option<(&'static str, Duration)> {
        let now = self.clock.now();
        let spent = |(name, since, extra): &(&'static str, Duration, Duration)| {
            (*name, now.saturating_sub(*since).saturating_sub(*extra))
        };
        self.working
            .values()
            .map(spent)
            .max_by_key(|(_, spent)| *spent)
    }
}

impl HealthMonitor {
    /// Registers a module, with no loop yet.
    pub fn part(&self, part: &'static str) -> PartMonitor {
        let loops = || Arc::new(Mutex::new(Loops::new(self.clock.clone())));
        PartMonitor(self.parts.lock().entry(part).or_insert_with(loops).clone())
    }

    /// Returns the number of restarts as a metric.
    pub fn metric(&self) -> Metric {
        let restarts = Metric::counter(
            "edge_agent_part_restarts_total",
            "Restarts of a part of the agent because the part hung.",
        );
        self.read().iter().fold(restarts, |metric, vital| {
            metric.with(&[("part", vital.part)], vital.restarts)
        })
    }

    /// Returns the health of all modules.
    pub fn read(&self) -> Vec<PartHealth> {
        let parts = self.parts.lock();
        let vital = |(part, loops): (&&'static str, &Arc<Mutex<Loops>>)| {
            let loops = loops.lock();
            let stuck = loops.longest().filter(|(_, spent)| *spent >= SUSPECT_LIMIT);
            PartHealth {
                part,
                restarts: loops.restarts,
                stuck,
            }
        };
        parts.iter().map(vital).collect()
    }
}

/// The supervisor's view of one module.
#[derive(Clone, Debug)]
pub struct PartMonitor(Arc<Mutex<Loops>>);

impl PartMonitor {
    /// Creates the heartbeat of a loop, which waits for work.
    pub fn heartbeat(&self, name: &'static str) -> Heartbeat {
        let mut loops = self.0.lock();
        loops.next += 1;
        Heartbeat {
            loops: self.0.clone(),
            number: loops.next,
            name,
        }
    }

    /// Returns a loop that is past its deadline, and how long its work takes.
    pub fn hung_loop(&self) -> Option<(&'static str, Duration)> {
        self.0
            .lock()
            .longest()
            .filter(|(_, spent)| *spent >= HANG_LIMIT)
    }

    /// Forgets the work of all loops after a restart; returns the number of restarts.
    pub fn record_restart(&self) -> u64 {
        let mut loops = self.0.lock();
        loops.working.clear();
        loops.restarts += 1;
        loops.restarts
    }
}

/// The heartbeat of one loop; it ends with the loop.
#[derive(Debug)]
pub struct Heartbeat {
    loops: Arc<Mutex<Loops>>,
    number: u64,
    name: &'static str,
}

impl Heartbeat {
    /// Creates a heartbeat that is not monitored, for a module that runs alone.
    pub fn unmonitored() -> Self {
        HealthMonitor::default().part("").heartbeat("")
    }

    /// Creates the heartbeat of another loop of the same module.
    pub fn for_loop(&self, name: &'static str) -> Self {
        PartMonitor(self.loops.clone()).heartbeat(name)
    }

    /// Records that the loop starts a piece of work, or makes progress.
    pub fn beat(&self) {
        self.beat_for(Duration::ZERO);
    }

    /// Records the start of a piece of work with `extra` time beyond [`HANG_LIMIT`].
    pub fn beat_for(&self, extra: Duration) {
        let mut loops = self.loops.lock();
        let now = loops.clock.now();
        loops.working.insert(self.number, (self.name, now, extra));
    }

    /// Records that the loop waits for work until the guard is dropped, or for tasks with heartbeats of their own.
    pub fn idle(&self) -> Idle<'_> {
        self.loops.lock().working.remove(&self.number);
        Idle(self)
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.loops.lock().working.remove(&self.number);
    }
}

/// A loop that waits for work.
#[derive(Debug)]
#[must_use = "the loop is at work as soon as this is dropped"]
pub struct Idle<'a>(&'a Heartbeat);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.beat();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    /// Lets the process run for this time: the supervisor looks every few seconds.
    async fn run(monitor: &PartMonitor, time: Duration) {
        let (step, mut left) = (Duration::from_secs(10), time);
        while !left.is_zero() {
            advance(step.min(left)).await;
            left = left.saturating_sub(step);
            monitor.hung_loop();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_waits_is_well_and_one_that_does_not_come_round_hangs() {
        let vitals = HealthMonitor::default();
        let monitor = vitals.part("part");
        let (first, second) = (monitor.heartbeat("first"), monitor.heartbeat("second"));
        run(&monitor, HANG_LIMIT * 2).await;
        assert_eq!(monitor.hung_loop(), None, "nothing has begun yet");
        first.beat();
        let rest = second.idle();
        run(&monitor, SUSPECT_LIMIT).await;
        let stuck = |stuck| {
            vec![PartHealth {
                part: "part",
                restarts: 0,
                stuck,
            }]
        };
        assert_eq!(vitals.read(), stuck(Some(("first", SUSPECT_LIMIT))));
        first.beat();
        run(&monitor, SUSPECT_LIMIT).await;
        assert_eq!(monitor.hung_loop(), None, "it has got on");
        drop(first.idle());
        drop(rest);
        second.beat_for(HANG_LIMIT);
        run(&monitor, HANG_LIMIT).await;
        assert_eq!(monitor.hung_loop(), Some(("first", HANG_LIMIT)));
        drop(first);
        assert_eq!(vitals.read(), stuck(None), "a loop that has ended is none");
        run(&monitor, HANG_LIMIT).await;
        assert_eq!(monitor.hung_loop(), Some(("second", HANG_LIMIT)));
        assert_eq!(monitor.record_restart(), 1);
        assert_eq!(
            vitals.read(),
            [PartHealth {
                part: "part",
                restarts: 1,
                stuck: None
            }]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_period_in_which_the_process_stood_still_counts_for_nobody() {
        let vitals = HealthMonitor::default();
        let monitor = vitals.part("part");
        let first = monitor.heartbeat("first");
        first.beat();
        for _ in 0..3 {
            run(&monitor, Duration::from_secs(20)).await;
            advance(HANG_LIMIT * 3).await;
            assert_eq!(monitor.hung_loop(), None);
        }
        assert_eq!(
            vitals.read()[0].stuck,
            Some(("first", Duration::from_secs(60)))
        );
        run(&monitor, Duration::from_secs(30)).await;
        assert_eq!(
            monitor.hung_loop(),
            Some(("first", HANG_LIMIT)),
            "a loop that hangs is found after stalls, too"
        );
    }
}
