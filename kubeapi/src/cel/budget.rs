//! What an evaluation may cost, in the units of Kubernetes: about one for each step, more for what reads much.

use std::time::{Duration, Instant};

use super::{error::EvalError, value::Val, weight};

/// What one expression may cost.
pub(crate) const PER_CALL: u64 = 1_000_000;

/// What all expressions for one object may cost.
pub(crate) const PER_OBJECT: u64 = 10_000_000;

/// How long all expressions for one object may take, whatever they cost.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);

/// What is spent between two looks at the clock: a few milliseconds' work.
const CLOCK: u64 = 4096;

/// How deep an evaluation goes down: as deep as one expression may be, which the expressions of variables in it share.
const DEEPEST: usize = 256;

/// What is left to spend.
#[derive(Debug)]
pub(crate) struct Budget {
    /// For the object.
    total: u64,
    /// For the expression at hand.
    call: u64,
    deadline: Instant,
    /// What may be spent before the next look at the clock.
    until_clock: u64,
    depth: usize,
}

impl Budget {
    /// For all expressions of one object.
    pub(crate) fn new(total: u64) -> Self {
        Self { total, call: PER_CALL, deadline: Instant::now() + DEADLINE, until_clock: CLOCK, depth: 0 }
    }

    /// Begins another expression.
    pub(crate) fn begin(&mut self) {
        self.call = PER_CALL;
        self.depth = 0;
    }

    /// Goes down one level. What follows is within it until [`Self::ascend`].
    pub(super) fn descend(&mut self) -> Result<(), EvalError> {
        if self.depth >= DEEPEST {
            return Err(EvalError::Deep);
        }
        self.depth += 1;
        Ok(())
    }

    pub(super) fn ascend(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// Whether nothing is left for the object.
    pub(crate) fn is_spent(&self) -> bool {
        self.total == 0
    }

    pub(crate) fn spend(&mut self, cost: u64) -> Result<(), EvalError> {
        self.until_clock = self.until_clock.saturating_sub(cost.max(1));
        if self.until_clock == 0 {
            self.until_clock = CLOCK;
            if Instant::now() >= self.deadline {
                self.total = 0;
                return Err(EvalError::Late);
            }
        }
        if cost > self.total {
            self.total = 0;
            return Err(EvalError::Cost);
        }
        self.total -= cost;
        match self.call.checked_sub(cost) {
            Some(left) => {
                self.call = left;
                Ok(())
            }
            None => Err(EvalError::Cost),
        }
    }

    /// For reading or writing so many bytes.
    pub(crate) fn spend_bytes(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.spend(weight::of_bytes(bytes))
    }

    /// For walking a value, before it is walked.
    pub(super) fn spend_on(&mut self, value: &Val<'_>) -> Result<(), EvalError> {
        self.spend(value.weight(self.left()))
    }

    /// For comparing two values, before they are compared.
    pub(super) fn spend_on_comparison(&mut self, one: &Val<'_>, two: &Val<'_>) -> Result<(), EvalError> {
        self.spend(one.comparison(two, self.left()))
    }

    /// What can still be paid.
    fn left(&self) -> u64 {
        self.call.min(self.total)
    }
}
