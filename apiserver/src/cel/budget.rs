//! The cost limit of evaluations, in the units of Kubernetes: about one for each step, more for reading large values.

use std::time::Duration;

use clock::Instant;

use super::{error::EvalError, value::Val, weight};

/// The most that one expression may cost.
pub(crate) const MAX_EXPRESSION_COST: u64 = 1_000_000;

/// The most that all expressions for one object may cost together.
pub(crate) const MAX_OBJECT_COST: u64 = 10_000_000;

/// How long all expressions for one object may take, whatever they cost.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);

/// The cost between two checks of the clock: a few milliseconds' work.
const COST_BETWEEN_CLOCK_CHECKS: u64 = 4096;

/// The greatest depth of recursion: that of one expression, shared with the expressions of its variables.
const MAX_DEPTH: usize = 256;

/// The remaining budget.
#[derive(Debug)]
pub(crate) struct Budget {
    /// The rest for the object.
    total: u64,
    /// The rest for the current expression.
    call: u64,
    deadline: Instant,
    /// The rest until the next check of the clock.
    until_clock: u64,
    depth: usize,
}

impl Budget {
    /// Makes the budget of all expressions of one object.
    pub(crate) fn new(total: u64) -> Self {
        Self {
            total,
            call: MAX_EXPRESSION_COST,
            deadline: Instant::now() + DEADLINE,
            until_clock: COST_BETWEEN_CLOCK_CHECKS,
            depth: 0,
        }
    }

    /// Begins the next expression.
    pub(crate) fn begin(&mut self) {
        self.call = MAX_EXPRESSION_COST;
        self.depth = 0;
    }

    /// Enters a level of recursion, until [`Self::ascend`].
    pub(super) fn descend(&mut self) -> Result<(), EvalError> {
        if self.depth >= MAX_DEPTH {
            return Err(EvalError::Deep);
        }
        self.depth += 1;
        Ok(())
    }

    pub(super) fn ascend(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// Reports whether nothing is left for the object.
    pub(crate) fn is_spent(&self) -> bool {
        self.total == 0
    }

    pub(crate) fn spend(&mut self, cost: u64) -> Result<(), EvalError> {
        self.until_clock = self.until_clock.saturating_sub(cost.max(1));
        if self.until_clock == 0 {
            self.until_clock = COST_BETWEEN_CLOCK_CHECKS;
            if Instant::now() >= self.deadline {
                self.total = 0;
                return Err(EvalError::Timeout);
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

    /// Pays for reading or writing this many bytes.
    pub(crate) fn spend_bytes(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.spend(weight::of_bytes(bytes))
    }

    /// Pays for walking a value, before it is walked.
    pub(super) fn spend_on(&mut self, value: &Val<'_>) -> Result<(), EvalError> {
        self.spend(value.weight(self.remaining()))
    }

    /// Pays for comparing two values, before they are compared.
    pub(super) fn spend_on_comparison(
        &mut self,
        one: &Val<'_>,
        two: &Val<'_>,
    ) -> Result<(), EvalError> {
        self.spend(one.comparison(two, self.remaining()))
    }

    /// Returns how much can still be paid.
    fn remaining(&self) -> u64 {
        self.call.min(self.total)
    }
}
