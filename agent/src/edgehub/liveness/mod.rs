//! Decides whether the other end is still alive. No clock, no IO: takes instants, returns actions.

use std::time::Duration;

use clock::Instant;

/// How long a connection may be silent before it is pinged (a WebSocket ping, which every server answers).
const PING_AFTER: Duration = Duration::from_millis(1500);
/// The shortest time between two pings.
const MIN_PING_INTERVAL: Duration = Duration::from_millis(500);
/// The factor by which the next answer may be slower than the slowest recent one, on slow links.
const SLOW_ANSWER_FACTOR: u32 = 4;
/// The silence that ends any connection, however slow the link.
const MAX_SILENCE: Duration = Duration::from_secs(15);
/// A check that is late by this time shows that this program was stalled, and may itself be the cause of the silence.
const STALL_THRESHOLD: Duration = Duration::from_millis(500);

/// The action at an instant.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LivenessAction {
    /// Nothing before this instant.
    Wait(Instant),
    /// Send a ping.
    Ping,
    /// Close the connection.
    Dead,
}

/// When data was received.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastReceived {
    /// The first time after the last ping: the answer. Data that came later says nothing of the round-trip time.
    pub(super) first: Instant,
    /// The last time.
    pub(super) last: Instant,
}

/// When the other end was last heard, and how fast it answers.
#[derive(Debug)]
pub(super) struct Liveness {
    heard: Instant,
    pinged: Option<Instant>,
    /// The slowest round-trip time, decaying.
    slowest_answer: Duration,
    silence_limit: Duration,
    /// Whether this silence was given more time already, because this program was stalled.
    is_extended: bool,
}

impl Liveness {
    /// Starts for a new connection, which silence of `silence_limit` ends.
    pub(super) fn new(silence_limit: Duration, now: Instant) -> Self {
        Self {
            heard: now,
            pinged: None,
            slowest_answer: Duration::ZERO,
            silence_limit,
            is_extended: false,
        }
    }

    /// Nothing was read until now: the silence before does not count.
    pub(super) fn resume(&mut self, now: Instant) {
        self.heard = self.heard.max(now);
        self.pinged = None;
    }

    /// Returns the action for what was received.
    pub(super) fn check(&mut self, heard: LastReceived, now: Instant) -> LivenessAction {
        if let Some(pinged) = self.pinged.take_if(|pinged| heard.first >= *pinged) {
            self.slowest_answer = heard
                .first
                .duration_since(pinged)
                .max(self.slowest_answer * 7 / 8);
            self.is_extended = false;
        }
        self.heard = self.heard.max(heard.last);
        let Some(pinged) = self.pinged else {
            let ask = self.heard + PING_AFTER;
            if now < ask {
                return LivenessAction::Wait(ask);
            }
            self.pinged = Some(now);
            return LivenessAction::Ping;
        };
        // a ping that was sent late, because the processor was busy, has its whole time, too
        let dead = (self.heard + self.silence_limit())
            .max(pinged + self.silence_limit().saturating_sub(PING_AFTER));
        if now < dead {
            return LivenessAction::Wait(dead);
        }
        // the answer may not have been read, or the ping not written: pinged once more, but not a third time
        if now >= dead + STALL_THRESHOLD && !std::mem::replace(&mut self.is_extended, true) {
            self.pinged = Some(now);
            return LivenessAction::Ping;
        }
        LivenessAction::Dead
    }

    /// Reports whether to ping now, because there is reason to doubt the connection. The answer has the same time as after
    /// silence.
    pub(super) fn ping_early(&mut self, now: Instant) -> bool {
        if self
            .pinged
            .is_some_and(|pinged| now < pinged + MIN_PING_INTERVAL)
        {
            return false;
        }
        self.pinged.get_or_insert(now);
        true
    }

    fn silence_limit(&self) -> Duration {
        (PING_AFTER + self.slowest_answer * SLOW_ANSWER_FACTOR)
            .max(self.silence_limit)
            .min(MAX_SILENCE.max(self.silence_limit))
    }
}

/// The silence that ends a connection. Connections that fall silent as soon as they are made may only be slow, as with a cloud
/// to which thousands of nodes return; closing them again and again would make it worse.
#[derive(Clone, Copy, Debug)]
pub(super) struct SilenceLimit(Duration);

impl SilenceLimit {
    /// The default.
    pub(super) const DEFAULT: Duration = Duration::from_secs(3);
    /// The maximum.
    const MAX: Duration = Duration::from_secs(12);
    /// A connection that lasted this long was not slowed by a busy cloud.
    const STABLE_PERIOD: Duration = Duration::from_secs(10);

    /// Starts with the default.
    pub(super) fn new() -> Self {
        Self(Self::DEFAULT)
    }

    /// Returns the silence that ends a connection.
    pub(super) fn get(self) -> Duration {
        self.0
    }

    /// Records the end of a connection, by silence or otherwise, after `lasted`.
    pub(super) fn record_end(&mut self, silent: bool, lasted: Duration) {
        self.0 = if silent && lasted < Self::STABLE_PERIOD {
            (self.0 * 2).min(Self::MAX)
        } else {
            Self::DEFAULT
        };
    }
}

#[cfg(test)]
mod tests;
