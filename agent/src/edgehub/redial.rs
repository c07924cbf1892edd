//! Decides when to dial again. No clock, no IO: takes instants and random numbers, returns waits.

use std::time::Duration;

use clock::Instant;

/// The upper limit of the first wait; short, since most failures are a cloud that restarts.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
/// The longest wait.
const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// The longest wait while the cloud has not been away for long: it is found again within half a second.
const SHORT_OUTAGE_MAX_BACKOFF: Duration = Duration::from_millis(400);
/// The smallest upper limit of a wait where the cloud itself failed, since all its nodes wait for it: of a thousand that come
/// within a second, the busiest quarter of it sees some 250.
const CLOUD_OUTAGE_MIN_SPREAD: Duration = Duration::from_secs(1);
/// Later the longest wait is the duration of the outage divided by this.
const OUTAGE_DIVISOR: u32 = 64;
/// The first wait while another agent has this node's name; each further one is twice as long …
const NAME_CONFLICT_BACKOFF: Duration = Duration::from_secs(2);
/// … up to this: a person may end the other agent.
const MAX_NAME_CONFLICT_BACKOFF: Duration = Duration::from_secs(300);
/// The refusals in a row after which the waits grow: the cause may be temporary, as the cloud's restart …
const MAX_QUICK_REFUSALS: u32 = 12;
/// … up to this: a certificate that was revoked stays so.
const MAX_REFUSED_BACKOFF: Duration = Duration::from_secs(60);
/// A connection that lasted this long resets the waits.
const STABLE_PERIOD: Duration = Duration::from_secs(2);

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The network, or this machine: probably only this node is affected.
    Network,
    /// The cloud ended or refused the connection: other nodes are affected at the same time.
    Cloud,
    /// Another agent of the same name is connected, and stays so.
    NameConflict,
    /// The cloud refuses this node, for example because its certificate was revoked.
    Refused,
}

/// The waits between dials: exponential, with full jitter, so that a fleet that was cut off at one instant does not return at
/// one instant (<https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/>).
#[derive(Debug)]
pub(crate) struct Redial {
    tries: u32,
    since: Instant,
    is_cloud_outage: bool,
    /// The name conflicts in a row.
    name_conflicts: u32,
    /// Whether the last failure was a name conflict.
    is_name_conflict: bool,
    /// The refusals of the cloud in a row.
    refusals: u32,
    /// Whether the missing connection was logged as a warning.
    is_outage_logged: bool,
}

impl Redial {
    /// Creates the state before the first dial.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            tries: 0,
            since: now,
            is_cloud_outage: false,
            name_conflicts: 0,
            is_name_conflict: false,
            refusals: 0,
            is_outage_logged: false,
        }
    }

    /// Records the end of the connection that was made at `begun`; `heard` says whether the cloud sent anything. A link that
    /// breaks every second does not mean that the cloud is away: the waits between such connections stay short.
    pub(crate) fn record_end(&mut self, begun: Instant, now: Instant, heard: bool) {
        let stable = now.duration_since(begun) >= STABLE_PERIOD;
        if stable {
            (self.tries, self.name_conflicts) = (0, 0);
        }
        if stable || heard {
            self.since = now;
        }
    }

    /// Records that the missing connection was logged as a warning: the next one is logged as visibly.
    pub(crate) fn record_outage(&mut self) {
        self.is_outage_logged = true;
    }

    /// Reports whether that was recorded since the last call.
    pub(crate) fn take_outage(&mut self) -> bool {
        std::mem::take(&mut self.is_outage_logged)
    }

    /// Resets the waits after a change of the network.
    pub(crate) fn reset(&mut self) {
        self.tries = 0;
        self.is_cloud_outage = false;
    }

    /// Records why the last connection failed or ended.
    pub(crate) fn record_cause(&mut self, cause: Cause) {
        self.is_cloud_outage = matches!(cause, Cause::Cloud | Cause::Refused);
        self.refusals = if cause == Cause::Refused {
            self.refusals.saturating_add(1)
        } else {
            0
        };
        self.is_name_conflict = cause == Cause::NameConflict;
        self.name_conflicts = if self.is_name_conflict {
            self.name_conflicts.saturating_add(1)
        } else {
            0
        };
    }

    /// Returns the wait before the next dial, for `unit` drawn uniformly from 0.0..1.0.
    pub(crate) fn wait(&mut self, unit: f64, now: Instant) -> Duration {
        if self.is_name_conflict {
            let longest = NAME_CONFLICT_BACKOFF
                .saturating_mul(2_u32.saturating_pow(self.name_conflicts.saturating_sub(1)));
            // never at once: two agents that replaced each other would both be useless
            return longest
                .min(MAX_NAME_CONFLICT_BACKOFF)
                .mul_f64(0.5 + 0.5 * unit.clamp(0.0, 1.0));
        }
        if let Some(more) = self.refusals.checked_sub(MAX_QUICK_REFUSALS) {
            let longest = CLOUD_OUTAGE_MIN_SPREAD
                .saturating_mul(2_u32.saturating_pow(more))
                .min(MAX_REFUSED_BACKOFF);
            return longest.mul_f64(0.5 + 0.5 * unit.clamp(0.0, 1.0));
        }
        let away = now.duration_since(self.since);
        let ceiling = if self.is_cloud_outage {
            (away / OUTAGE_DIVISOR)
                .max(CLOUD_OUTAGE_MIN_SPREAD)
                .min(MAX_BACKOFF)
        } else {
            let longest = (away / OUTAGE_DIVISOR)
                .max(SHORT_OUTAGE_MAX_BACKOFF)
                .min(MAX_BACKOFF);
            INITIAL_BACKOFF
                .saturating_mul(2_u32.saturating_pow(self.tries))
                .min(longest)
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
        let mut wait = |seconds| {
            redial
                .wait(1.0, start + Duration::from_secs(seconds))
                .as_millis()
        };
        let table = [
            (0, 100),
            (0, 200),
            (1, 400),
            (2, 400),
            (25, 400),
            (64, 1000),
            (320, 5000),
            (6400, 10_000),
        ];
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
            redial.record_cause(Cause::Refused);
            waits.push(redial.wait(1.0, start).as_secs());
        }
        assert!(
            waits[..11].iter().all(|wait| *wait <= 1),
            "as a cloud that restarts: {waits:?}"
        );
        assert_eq!(waits[11..], [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        redial.record_cause(Cause::Network);
        assert!(
            redial.wait(1.0, start) <= SHORT_OUTAGE_MAX_BACKOFF,
            "another reason begins anew"
        );
    }

    /// Cuts a thousand nodes off at one instant; the cloud is back after `outage`. Returns when each of them finds it, in ms.
    fn found_again(outage: Duration) -> Vec<u128> {
        let start = Instant::now();
        let found = (0..1000).map(|_| {
            let (mut redial, mut at) = (Redial::new(start), start);
            while at < start + outage {
                at += redial.wait(clock::rng().random(), at);
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
            // twenty slots of the time in which they may come: each would hold 50, were there not more short waits
            let mut slots = [0_u32; 20];
            found
                .iter()
                .for_each(|after| slots[(after * 20 / (longest + 1)) as usize] += 1);
            assert!(
                slots.iter().all(|slot| *slot < 250),
                "{outage} ms: {slots:?}"
            );
            let busy = slots.iter().filter(|slot| **slot > 0).count();
            assert!(busy >= 15, "{outage} ms: {slots:?}");
        }
    }

    #[test]
    fn the_first_waits_of_a_thousand_nodes_are_spread_evenly() {
        let now = Instant::now();
        let mut slots = [0_u32; 10];
        for _ in 0..1000 {
            let wait = Redial::new(now).wait(clock::rng().random(), now);
            slots[(wait.as_micros() / 10_000).min(9) as usize] += 1;
        }
        // 100 each, plus or minus six standard deviations
        assert!(
            slots.iter().all(|slot| (43..=157).contains(slot)),
            "{slots:?}"
        );
    }

    #[test]
    fn nodes_that_the_cloud_itself_has_left_are_spread_over_a_second_from_the_first_wait_on() {
        let now = Instant::now();
        let mut slots = [0_u32; 4];
        for _ in 0..1000 {
            let mut redial = Redial::new(now);
            redial.record_cause(Cause::Cloud);
            let wait = redial.wait(clock::rng().random(), now);
            slots[(wait.as_millis() / 250).min(3) as usize] += 1;
        }
        // 250 each, plus or minus six standard deviations
        assert!(
            slots.iter().all(|slot| (168..=332).contains(slot)),
            "{slots:?}"
        );
        let mut redial = Redial::new(now);
        redial.record_cause(Cause::Cloud);
        assert_eq!(
            redial.wait(1.0, now + Duration::from_secs(128)),
            Duration::from_secs(2)
        );
        redial.reset();
        assert_eq!(redial.wait(1.0, now), INITIAL_BACKOFF, "another network");
    }

    #[test]
    fn while_another_agent_has_the_name_waits_grow_to_minutes_and_are_never_short() {
        let now = Instant::now();
        let mut redial = Redial::new(now);
        let mut wait = |unit| {
            redial.record_cause(Cause::NameConflict);
            redial.wait(unit, now).as_secs()
        };
        let waits: Vec<u64> = (0..9).map(|_| wait(1.0)).collect();
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(wait(0.0), 150);
        redial.record_cause(Cause::Network);
        assert!(
            redial.wait(1.0, now) <= SHORT_OUTAGE_MAX_BACKOFF,
            "the other one has gone"
        );
    }

    #[test]
    fn a_connection_that_lasts_starts_the_waits_over_and_a_short_one_does_not() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut redial = Redial::new(start);
        for _ in 0..8 {
            redial.wait(1.0, at(0));
        }
        redial.record_end(at(640), at(641), false);
        assert_eq!(
            redial.wait(1.0, at(641)).as_secs(),
            10,
            "one second is not long"
        );
        redial.record_end(at(642), at(643), true);
        assert_eq!(
            redial.wait(1.0, at(643)),
            SHORT_OUTAGE_MAX_BACKOFF,
            "the cloud is there"
        );
        redial.record_end(at(650), at(652), false);
        assert_eq!(redial.wait(1.0, at(652)), INITIAL_BACKOFF);
        redial.reset();
        assert_eq!(redial.wait(0.5, at(660)), INITIAL_BACKOFF / 2);
    }
}
