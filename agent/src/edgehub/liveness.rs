//! Is the other end still there? No clock, no IO: takes instants, says what to do.

use std::time::{Duration, Instant};

/// A connection that has been silent for this long is asked for a sign of life (a WebSocket ping, which every server answers).
const ASK_AFTER: Duration = Duration::from_secs(5);
/// A connection that has been silent for this long is dead.
const DEAD_AFTER: Duration = Duration::from_secs(15);

/// What to do at an instant.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pulse {
    /// Nothing before this instant.
    Wait(Instant),
    /// Send a ping.
    Ask,
    /// Give the connection up.
    Dead,
}

/// When the other end was last heard of.
#[derive(Debug)]
pub(super) struct Liveness {
    heard: Instant,
    asked: Option<Instant>,
}

impl Liveness {
    /// A connection just made.
    pub(super) fn new(now: Instant) -> Self {
        Self { heard: now, asked: None }
    }

    /// Anything arrived.
    pub(super) fn heard(&mut self, now: Instant) {
        self.heard = now;
        self.asked = None;
    }

    /// What to do now.
    pub(super) fn check(&mut self, now: Instant) -> Pulse {
        if now >= self.heard + DEAD_AFTER {
            return Pulse::Dead;
        }
        let ask = self.asked.unwrap_or(self.heard) + ASK_AFTER;
        if now >= ask {
            self.asked = Some(now);
            return Pulse::Ask;
        }
        Pulse::Wait(ask.min(self.heard + DEAD_AFTER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_asked_about_and_then_ends_the_connection() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut liveness = Liveness::new(start);
        assert_eq!(liveness.check(at(1)), Pulse::Wait(at(5)));
        assert_eq!(liveness.check(at(5)), Pulse::Ask);
        assert_eq!(liveness.check(at(5)), Pulse::Wait(at(10)));
        assert_eq!(liveness.check(at(10)), Pulse::Ask);
        assert_eq!(liveness.check(at(15)), Pulse::Dead);
    }

    #[test]
    fn any_sign_of_life_starts_over() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut liveness = Liveness::new(start);
        assert_eq!(liveness.check(at(6)), Pulse::Ask);
        liveness.heard(at(7));
        assert_eq!(liveness.check(at(8)), Pulse::Wait(at(12)));
    }
}
