//! Is the other end still there? No clock, no IO: takes instants, says what to do.

use std::time::{Duration, Instant};

/// A connection that has been silent for so long is asked for a sign of life (a WebSocket ping, which every server answers).
const ASK_AFTER: Duration = Duration::from_millis(1500);
/// A question asked out of turn follows the one before not sooner than this.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// So much longer than the slowest recent answer may the next one take, on links where answers are slow.
const SLACK: u32 = 4;
/// However slow a link is, so much silence ends the connection.
const MAX_SILENCE: Duration = Duration::from_secs(15);
/// Who looks so long after the time for it was held up, and may be the one who is to blame for the silence.
const HELD_UP: Duration = Duration::from_millis(500);

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

/// Signs of life of the other end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    /// The first after the last question: the answer. What else comes later says nothing of how long that took.
    pub(super) first: Instant,
    /// The last.
    pub(super) last: Instant,
}

/// When the other end was last heard of, and how fast it answers.
#[derive(Debug)]
pub(super) struct Liveness {
    heard: Instant,
    asked: Option<Instant>,
    /// The slowest answer, fading.
    slowest: Duration,
    patience: Duration,
    /// This silence has been given time once more, since this program was held up.
    excused: bool,
}

impl Liveness {
    /// A connection just made, on which silence of `patience` means death.
    pub(super) fn new(patience: Duration, now: Instant) -> Self {
        Self { heard: now, asked: None, slowest: Duration::ZERO, patience, excused: false }
    }

    /// Nobody listened until now; silence before is nobody's fault.
    pub(super) fn listened(&mut self, now: Instant) {
        self.heard = self.heard.max(now);
        self.asked = None;
    }

    /// What to do now that so much was heard.
    pub(super) fn check(&mut self, heard: Heard, now: Instant) -> Pulse {
        if let Some(asked) = self.asked.take_if(|asked| heard.first >= *asked) {
            self.slowest = heard.first.duration_since(asked).max(self.slowest * 7 / 8);
            self.excused = false;
        }
        self.heard = self.heard.max(heard.last);
        let Some(asked) = self.asked else {
            let ask = self.heard + ASK_AFTER;
            if now < ask {
                return Pulse::Wait(ask);
            }
            self.asked = Some(now);
            return Pulse::Ask;
        };
        // a question that was asked late, since the processor was somebody else's, has its whole time too
        let dead = (self.heard + self.patience()).max(asked + self.patience().saturating_sub(ASK_AFTER));
        if now < dead {
            return Pulse::Wait(dead);
        }
        // the answer may not have been read, or the question not written: asked once more, and no third time
        if now >= dead + HELD_UP && !std::mem::replace(&mut self.excused, true) {
            self.asked = Some(now);
            return Pulse::Ask;
        }
        Pulse::Dead
    }

    /// There is reason to doubt: whether to ask now. The answer has to come as soon as after silence.
    pub(super) fn doubt(&mut self, now: Instant) -> bool {
        if self.asked.is_some_and(|asked| now < asked + ASK_AGAIN) {
            return false;
        }
        self.asked.get_or_insert(now);
        true
    }

    fn patience(&self) -> Duration {
        (ASK_AFTER + self.slowest * SLACK).max(self.patience).min(MAX_SILENCE.max(self.patience))
    }
}

/// How much silence is death. Connections that fall silent as soon as they are made are perhaps only slow, as a cloud is to
/// which thousands of nodes return; giving them up for ever would make it worse.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience(Duration);

impl Patience {
    /// The usual.
    pub(super) const USUAL: Duration = Duration::from_secs(3);
    /// The most.
    const MAX: Duration = Duration::from_secs(12);
    /// A connection that lasted so long was not made to a cloud that is too busy for it.
    const PROVEN: Duration = Duration::from_secs(10);

    /// As long as nothing is known.
    pub(super) fn new() -> Self {
        Self(Self::USUAL)
    }

    /// The silence that means death.
    pub(super) fn get(self) -> Duration {
        self.0
    }

    /// A connection ended, for its silence or otherwise, after `lasted`.
    pub(super) fn ended(&mut self, silent: bool, lasted: Duration) {
        self.0 = if silent && lasted < Self::PROVEN { (self.0 * 2).min(Self::MAX) } else { Self::USUAL };
    }
}

#[cfg(test)]
mod tests;
