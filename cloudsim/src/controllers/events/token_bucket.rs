//! How often something may happen: a token bucket. Pure, told how much time has passed.
//!
//! Source: `EventSourceObjectSpamFilter` of client-go.

use std::time::Duration;

/// How often something may happen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// So often at once.
    pub(crate) burst: f64,
    /// The time in which it may happen once more.
    pub(crate) refill: Duration,
}

/// Events of one source about one object.
pub(crate) const PER_OBJECT: Rate = Rate { burst: 25.0, refill: Duration::from_secs(300) };

/// What is left of a rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket(f64);

impl TokenBucket {
    /// Nothing has happened yet.
    pub(crate) fn full(rate: Rate) -> Self {
        Self(rate.burst)
    }

    /// Whether it may happen, when so much time has passed since it was last asked for.
    pub(crate) fn take(&mut self, rate: Rate, passed: Duration) -> bool {
        self.0 = (self.0 + passed.as_secs_f64() / rate.refill.as_secs_f64()).min(rate.burst);
        let may = self.0 >= 1.0;
        if may {
            self.0 -= 1.0;
        }
        may
    }
}
