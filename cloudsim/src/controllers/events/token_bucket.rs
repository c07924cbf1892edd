//! A token bucket, which limits a rate. Pure: the elapsed time is an argument.
//!
//! Source: `EventSourceObjectSpamFilter` of client-go.

use std::time::Duration;

/// A rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// The number of tokens in a full bucket.
    pub(crate) burst: f64,
    /// The time in which one token is added.
    pub(crate) refill: Duration,
}

/// The rate of events of one source about one object.
pub(crate) const PER_OBJECT: Rate = Rate {
    burst: 25.0,
    refill: Duration::from_secs(300),
};

/// The remaining tokens of a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket(f64);

impl TokenBucket {
    /// Creates a full bucket.
    pub(crate) fn full(rate: Rate) -> Self {
        Self(rate.burst)
    }

    /// Reports whether there is a token; `passed` is the time since the last [`TokenBucket::take`].
    pub(crate) fn has_token(&self, rate: Rate, passed: Duration) -> bool {
        self.level(rate, passed) >= 1.0
    }

    /// Takes a token, if there is one; `passed` is the time since the last call.
    pub(crate) fn take(&mut self, rate: Rate, passed: Duration) -> bool {
        self.0 = self.level(rate, passed);
        let may = self.0 >= 1.0;
        if may {
            self.0 -= 1.0;
        }
        may
    }

    fn level(&self, rate: Rate, passed: Duration) -> f64 {
        (self.0 + passed.as_secs_f64() / rate.refill.as_secs_f64()).min(rate.burst)
    }
}
