//! Whether and when a container is started again.

use std::time::Duration;

use jiff::Timestamp;

use super::Wanted;
use crate::edged::{
    moment,
    observed::{Container, State},
};

/// The second restart in a row waits this long, the next twice as long; kubelet's numbers.
const FIRST_DELAY: Duration = Duration::from_secs(10);
/// No restart waits longer.
const MAX_DELAY: Duration = Duration::from_secs(300);
/// A container that ran this long starts with a clean slate.
const STABLE: Duration = Duration::from_secs(600);

/// Whether a container may be started.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// Yes.
    Now {
        /// How many there were before.
        attempt: u32,
        /// How many restarts in a row lead to it.
        step: u32,
        /// A container that has to go first.
        remove: Option<String>,
    },
    /// Not yet.
    Later {
        /// When.
        at: Timestamp,
        /// The length of the whole wait.
        delay: Duration,
    },
    /// Only when this one has been stopped.
    Stop {
        /// The runtime's id.
        id: String,
    },
    /// Only when something else has happened.
    Wait,
}

/// Whether the container was made from something else than what is wanted now. A hash of another form was written by
/// another agent that was here before this one; that is no reason to restart anything.
pub(super) fn is_changed(wanted: &Wanted, last: &Container) -> bool {
    last.hash.as_ref().is_some_and(|hash| hash.len() == wanted.hash.len() && *hash != wanted.hash)
}

/// Whether its policy wants a container that does not run to be started.
pub(super) fn is_wanted(wanted: &Wanted, last: Option<&Container>) -> bool {
    let Some(last) = last else { return wanted.ended.is_none_or(|code| wanted.restart.restarts(code)) };
    let Some(code) = last.exit_code() else { return true };
    is_changed(wanted, last) || wanted.restart.restarts(code)
}

/// When a container that is wanted may be started, given the last one of its name.
pub(super) fn admit(wanted: &Wanted, last: Option<&Container>, now: Timestamp) -> Admission {
    let Some(last) = last else {
        return Admission::Now { attempt: wanted.forgotten, step: 0, remove: None };
    };
    let attempt = last.attempt.saturating_add(1);
    match last.state {
        State::Created => {
            Admission::Now { attempt: last.attempt, step: last.step, remove: Some(last.id.clone()) }
        }
        State::Unknown => Admission::Stop { id: last.id.clone() },
        State::Running { .. } => Admission::Wait,
        State::Exited { .. } if is_changed(wanted, last) => Admission::Now { attempt, step: 0, remove: None },
        State::Exited { started_at, finished_at, .. } => {
            let ran = started_at.map_or(Duration::ZERO, |started_at| moment::until(finished_at, started_at));
            if ran >= STABLE {
                return Admission::Now { attempt, step: 1, remove: None };
            }
            let delay = delay(last.step);
            let at = moment::after(finished_at, delay);
            if moment::is_over(at, now, MAX_DELAY) {
                Admission::Now { attempt, step: last.step.saturating_add(1), remove: None }
            } else {
                Admission::Later { at, delay }
            }
        }
    }
}

/// How long a container that was itself the `step`th restart in a row is left dead.
fn delay(step: u32) -> Duration {
    match step.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => FIRST_DELAY.saturating_mul(2_u32.saturating_pow(doublings)).min(MAX_DELAY),
    }
}
