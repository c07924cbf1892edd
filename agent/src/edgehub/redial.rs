//! When to dial again. No clock, no IO: takes instants and chance, says how long to wait.

use std::time::{Duration, Instant};

/// The first wait is at most this; short, since most failures are a cloud that restarts.
const FIRST: Duration = Duration::from_millis(100);
/// The longest wait of all.
const LONGEST: Duration = Duration::from_secs(10);
/// While the cloud has not been away for long, no wait is longer than this: it is found again within half a second.
const SHORT: Duration = Duration::from_millis(400);
/// Where the cloud itself went, all its nodes wait for it, and no wait is shorter at its longest: of a thousand that come within
/// a second, the busiest quarter of it sees some 250.
const TOGETHER: Duration = Duration::from_secs(1);
/// Later the longest wait is this part of the time that the cloud has been away.
const PART: u32 = 64;
/// While another agent has this node's name, the first wait is this; each next one is twice as long …
const RIVAL: Duration = Duration::from_secs(2);
/// … up to this: the other one may be ended by a person.
const RIVAL_LONGEST: Duration = Duration::from_secs(300);
/// So often in a row the cloud may refuse this node before it is asked less often: what makes it do so may end, as its restart …
const REFUSALS: u32 = 12;
/// … and then each wait is twice as long as the one before, up to this: a certificate that was taken back stays so.
const REFUSED_LONGEST: Duration = Duration::from_secs(60);
/// A connection that lasted so long starts the waits over.
const STABLE: Duration = Duration::from_secs(2);

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The way to the cloud, or this end of it: probably this node's alone.
    Way,
    /// The cloud itself, as where it ended the connection or refused one: other nodes met with it at the same time.
    Cloud,
    /// Another agent of the same name is connected, and stays so.
    Rival,
    /// The cloud refuses this node, as one whose certificate was taken back.
    Refused,
}

/// The waits of one outage after the other: exponential, with full jitter, so that a fleet cut off at one instant does not return
/// at one instant (<https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/>).
#[derive(Debug)]
pub(crate) struct Redial {
    tries: u32,
    since: Instant,
    together: bool,
    /// How often in a row another agent of the same name was in the way.
    rivals: u32,
    /// Whether it was the last time.
    is_rival: bool,
    /// How often in a row the cloud has refused this node.
    refusals: u32,
}

impl Redial {
    /// Nothing has been dialled yet.
    pub(crate) fn new(now: Instant) -> Self {
        Self { tries: 0, since: now, together: false, rivals: 0, is_rival: false, refusals: 0 }
    }

    /// The connection that was made at `begun` has ended; the cloud was `heard` over it, or said nothing. A link that breaks every
    /// second is no cloud that is away: there are short waits between its connections however long that goes on.
    pub(crate) fn ended(&mut self, begun: Instant, now: Instant, heard: bool) {
        let stable = now.duration_since(begun) >= STABLE;
        if stable {
            (self.tries, self.rivals) = (0, 0);
        }
        if stable || heard {
            self.since = now;
        }
    }

    /// The network is another one: what failed before says nothing.
    pub(crate) fn hope(&mut self) {
        self.tries = 0;
        self.together = false;
    }

    /// Why the last connection failed or ended.
    pub(crate) fn because(&mut self, cause: Cause) {
        self.together = matches!(cause, Cause::Cloud | Cause::Refused);
        self.refusals = if cause == Cause::Refused { self.refusals.saturating_add(1) } else { 0 };
        self.is_rival = cause == Cause::Rival;
        self.rivals = if self.is_rival { self.rivals.saturating_add(1) } else { 0 };
    }

    /// The wait before the next dial, given `unit` drawn uniformly from 0.0..1.0.
    pub(crate) fn wait(&mut self, unit: f64, now: Instant) -> Duration {
        if self.is_rival {
            let longest = RIVAL.saturating_mul(2_u32.saturating_pow(self.rivals.saturating_sub(1)));
            // never at once: two agents that take turns would be none
            return longest.min(RIVAL_LONGEST).mul_f64(0.5 + 0.5 * unit.clamp(0.0, 1.0));
        }
        if let Some(more) = self.refusals.checked_sub(REFUSALS) {
            let longest = TOGETHER.saturating_mul(2_u32.saturating_pow(more)).min(REFUSED_LONGEST);
            return longest.mul_f64(0.5 + 0.5 * unit.clamp(0.0, 1.0));
        }
        let away = now.duration_since(self.since);
        let ceiling = if self.together {
            (away / PART).max(TOGETHER).min(LONGEST)
        } else {
            let longest = (away / PART).max(SHORT).min(LONGEST);
            FIRST.saturating_mul(2_u32.saturating_pow(self.tries)).min(longest)
        };
        self.tries = self.tries.saturating_add(1);
        ceiling.mul_f64(unit.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_with_the_outage() {
        let start = Instant::now();
        let mut redial = Redial::new(start);
        let mut wait = |seconds| redial.wait(1.0, start + Duration::from_secs(seconds)).as_millis();
        let table =
            [(0, 100), (0, 200), (1, 400), (2, 400), (25, 400), (64, 1000), (320, 5000), (6400, 10_000)];
        for (seconds, milliseconds) in table {
            assert_eq!(wait(seconds), milliseconds, "after {seconds} s");
        }
    }

    #[test]
    fn a_node_that_is_refused_again_and_again_asks_less_and_less_often() {
        let start = Instant::now();
        let mut redial = Redial::new(start);
        let mut waits = Vec::new();
        for _ in 0..20 {
            redial.because(Cause::Refused);
            waits.push(redial.wait(1.0, start).as_secs());
        }
        assert!(waits[..11].iter().all(|wait| *wait <= 1), "as a cloud that restarts: {waits:?}");
        assert_eq!(waits[11..], [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        redial.because(Cause::Way);
        assert!(redial.wait(1.0, start) <= SHORT, "another reason begins anew");
    }

    /// A thousand nodes are cut off at one instant; the cloud is back after `outage`. When each of them finds it, in ms.
    fn found_again(outage: Duration) -> Vec<u128> {
        let start = Instant::now();
        let found = (0..1000).map(|_| {
            let (mut redial, mut at) = (Redial::new(start), start);
            while at < start + outage {
                at += redial.wait(rand::random(), at);
            }
            (at - start - outage).as_millis()
        });
        found.collect()
    }

    #[test]
    fn a_thousand_nodes_do_not_return_at_one_instant_and_none_is_late() {
        for (outage, longest) in [(200, 400), (2000, 400), (20_000, 400), (300_000, 4700)] {
            let found = found_again(Duration::from_millis(outage));
            let late = found.iter().filter(|after| **after > longest).count();
            assert_eq!(late, 0, "{outage} ms: {:?}", found.iter().max());
            // twenty slots of the time in which they may come: each would hold 50, were there no more of short waits
            let mut slots = [0_u32; 20];
            found.iter().for_each(|after| slots[(after * 20 / (longest + 1)) as usize] += 1);
            assert!(slots.iter().all(|slot| *slot < 250), "{outage} ms: {slots:?}");
            let busy = slots.iter().filter(|slot| **slot > 0).count();
            assert!(busy >= 15, "{outage} ms: {slots:?}");
        }
    }

    #[test]
    fn the_first_waits_of_a_thousand_nodes_are_spread_evenly() {
        let now = Instant::now();
        let mut slots = [0_u32; 10];
        for _ in 0..1000 {
            let wait = Redial::new(now).wait(rand::random(), now);
            slots[(wait.as_micros() / 10_000).min(9) as usize] += 1;
        }
        // 100 each, give or take six standard deviations
        assert!(slots.iter().all(|slot| (43..=157).contains(slot)), "{slots:?}");
    }

    #[test]
    fn nodes_that_the_cloud_itself_has_left_are_spread_over_a_second_from_the_first_wait_on() {
        let now = Instant::now();
        let mut slots = [0_u32; 4];
        for _ in 0..1000 {
            let mut redial = Redial::new(now);
            redial.because(Cause::Cloud);
            let wait = redial.wait(rand::random(), now);
            slots[(wait.as_millis() / 250).min(3) as usize] += 1;
        }
        // 250 each, give or take six standard deviations
        assert!(slots.iter().all(|slot| (168..=332).contains(slot)), "{slots:?}");
        let mut redial = Redial::new(now);
        redial.because(Cause::Cloud);
        assert_eq!(redial.wait(1.0, now + Duration::from_secs(128)), Duration::from_secs(2));
        redial.hope();
        assert_eq!(redial.wait(1.0, now), FIRST, "another network");
    }

    #[test]
    fn while_another_agent_has_the_name_waits_grow_to_minutes_and_are_never_short() {
        let now = Instant::now();
        let mut redial = Redial::new(now);
        let mut wait = |unit| {
            redial.because(Cause::Rival);
            redial.wait(unit, now).as_secs()
        };
        let waits: Vec<u64> = (0..9).map(|_| wait(1.0)).collect();
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(wait(0.0), 150);
        redial.because(Cause::Way);
        assert!(redial.wait(1.0, now) <= SHORT, "the other one has gone");
    }

    #[test]
    fn a_connection_that_lasts_starts_the_waits_over_and_a_short_one_does_not() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut redial = Redial::new(start);
        for _ in 0..8 {
            redial.wait(1.0, at(0));
        }
        redial.ended(at(640), at(641), false);
        assert_eq!(redial.wait(1.0, at(641)).as_secs(), 10, "one second is not long");
        redial.ended(at(642), at(643), true);
        assert_eq!(redial.wait(1.0, at(643)), SHORT, "the cloud is there");
        redial.ended(at(650), at(652), false);
        assert_eq!(redial.wait(1.0, at(652)), FIRST);
        redial.hope();
        assert_eq!(redial.wait(0.5, at(660)), FIRST / 2);
    }
}
