//! Whether parts of the agent come round: each loop of a part says when it waits for work, and what it does besides has a deadline. A
//! part of which a loop is past its deadline hangs: [`Supervisor`](super::Supervisor) starts it anew, and health names it.
//!
//! There is no clock in it that ticks: a loop writes down an instant when it takes up work, and none when it is done. So a loop that
//! waits, however long, is well.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Metric;

/// How long one piece of work may take. The longest that is done without a wait in between are calls of the cloud, ten seconds, and
/// writes to a disk that is slow.
pub(crate) const HANG_LIMIT: Duration = Duration::from_secs(90);
/// Health names a part that has been at one piece of work for so long; many writes to a slow disk.
pub(crate) const SUSPECT: Duration = Duration::from_secs(60);

/// The loops of each part, by the part's name.
type Parts = BTreeMap<&'static str, Arc<Mutex<Loops>>>;

/// The hearts of all parts; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Vitals(Arc<Mutex<Parts>>);

/// What is known of one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vital {
    /// The part.
    pub(crate) part: &'static str,
    /// How often it was started anew because it hung.
    pub(crate) restarts: u64,
    /// The loop that has been at one piece of work for longer than [`SUSPECT`], and for how long.
    pub(crate) stuck: Option<(&'static str, Duration)>,
}

/// The loops of a part.
#[derive(Debug, Default)]
struct Loops {
    /// Numbers them: there may be two of one name.
    next: u64,
    /// Those at work: since when, and how much longer than [`HANG_LIMIT`] this piece may take.
    at_work: BTreeMap<u64, (&'static str, Instant, Duration)>,
    restarts: u64,
}

impl Loops {
    /// The loop that is at one piece of work for longest.
    fn longest(&self, now: Instant) -> Option<(&'static str, Duration)> {
        let spent = |(name, since, extra): &(&'static str, Instant, Duration)| {
            (*name, now.saturating_duration_since(*since).saturating_sub(*extra))
        };
        self.at_work.values().map(spent).max_by_key(|(_, spent)| *spent)
    }
}

impl Vitals {
    /// A part's heart, with no loop yet.
    pub(crate) fn part(&self, part: &'static str) -> Pulse {
        Pulse(self.0.lock().entry(part).or_default().clone())
    }

    /// How often parts were started anew, as a figure.
    pub(crate) fn metric(&self) -> Metric {
        let restarts = Metric::counter(
            "edge_agent_part_restarts_total",
            "How often a part of the agent was started anew because it hung.",
        );
        self.read()
            .iter()
            .fold(restarts, |metric, vital| metric.with(&[("part", vital.part)], vital.restarts))
    }

    /// How all parts are.
    pub(crate) fn read(&self) -> Vec<Vital> {
        let now = Instant::now();
        let parts = self.0.lock();
        let vital = |(part, loops): (&&'static str, &Arc<Mutex<Loops>>)| {
            let loops = loops.lock();
            let stuck = loops.longest(now).filter(|(_, spent)| *spent >= SUSPECT);
            Vital { part, restarts: loops.restarts, stuck }
        };
        parts.iter().map(vital).collect()
    }
}

/// A part's heart as its supervisor has it.
#[derive(Clone, Debug)]
pub(crate) struct Pulse(Arc<Mutex<Loops>>);

impl Pulse {
    /// A loop of the part, which waits for work.
    pub(crate) fn heart(&self, name: &'static str) -> Heart {
        let mut loops = self.0.lock();
        loops.next += 1;
        Heart { loops: self.0.clone(), number: loops.next, name }
    }

    /// The loop that is past its deadline, if one is, and how long it has been at its work.
    pub(crate) fn hangs(&self) -> Option<(&'static str, Duration)> {
        self.0.lock().longest(Instant::now()).filter(|(_, spent)| *spent >= HANG_LIMIT)
    }

    /// The part was started anew: what its loops were at is no more. How often that has been.
    pub(crate) fn restarted(&self) -> u64 {
        let mut loops = self.0.lock();
        loops.at_work.clear();
        loops.restarts += 1;
        loops.restarts
    }
}

/// The heart of one loop; it ends with the loop.
#[derive(Debug)]
pub(crate) struct Heart {
    loops: Arc<Mutex<Loops>>,
    number: u64,
    name: &'static str,
}

impl Heart {
    /// One that nobody listens to, for a part that runs by itself.
    pub(crate) fn unheard() -> Self {
        Vitals::default().part("").heart("")
    }

    /// The heart of another loop of the same part.
    pub(crate) fn another(&self, name: &'static str) -> Self {
        Pulse(self.loops.clone()).heart(name)
    }

    /// The loop begins with a piece of work, or has got on with it.
    pub(crate) fn beat(&self) {
        self.beat_for(Duration::ZERO);
    }

    /// The same of a piece of work that has a time limit of its own.
    pub(crate) fn beat_for(&self, extra: Duration) {
        self.loops.lock().at_work.insert(self.number, (self.name, Instant::now(), extra));
    }

    /// The loop waits for work until the guard is dropped, or for a part that has a heart of its own.
    pub(crate) fn rest(&self) -> Rest<'_> {
        self.loops.lock().at_work.remove(&self.number);
        Rest(self)
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.loops.lock().at_work.remove(&self.number);
    }
}

/// A loop waits for work.
#[derive(Debug)]
#[must_use = "the loop is at work as soon as this is dropped"]
pub(crate) struct Rest<'a>(&'a Heart);

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.0.beat();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_waits_is_well_and_one_that_does_not_come_round_hangs() {
        let vitals = Vitals::default();
        let pulse = vitals.part("part");
        let (first, second) = (pulse.heart("first"), pulse.heart("second"));
        advance(HANG_LIMIT * 2).await;
        assert_eq!(pulse.hangs(), None, "nothing has begun yet");
        first.beat();
        let rest = second.rest();
        advance(SUSPECT).await;
        let stuck = |stuck| vec![Vital { part: "part", restarts: 0, stuck }];
        assert_eq!(vitals.read(), stuck(Some(("first", SUSPECT))));
        first.beat();
        advance(SUSPECT).await;
        assert_eq!(pulse.hangs(), None, "it has got on");
        drop(first.rest());
        drop(rest);
        second.beat_for(HANG_LIMIT);
        advance(HANG_LIMIT).await;
        assert_eq!(pulse.hangs(), Some(("first", HANG_LIMIT)));
        drop(first);
        assert_eq!(vitals.read(), stuck(None), "a loop that has ended is none");
        advance(HANG_LIMIT).await;
        assert_eq!(pulse.hangs(), Some(("second", HANG_LIMIT)));
        assert_eq!(pulse.restarted(), 1);
        assert_eq!(vitals.read(), [Vital { part: "part", restarts: 1, stuck: None }]);
    }
}
