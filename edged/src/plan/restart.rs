//! Decides whether and when a container is restarted.

use std::time::Duration;

use jiff::Timestamp;

use super::{DesiredContainer, DesiredPod, RestartPolicy, Role};
use crate::{
    observed::{Container, ObservedPod, ObservedState},
    timestamps,
};

/// Delay of the second restart in a row, doubled with each further one; the kubelet's numbers.
const FIRST_DELAY: Duration = Duration::from_secs(10);
/// Maximum delay of a restart.
const MAX_DELAY: Duration = Duration::from_secs(300);
/// A container that ran this long resets the back-off.
const BACK_OFF_RESET: Duration = Duration::from_secs(600);

/// Whether and when a container is started.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StartDecision {
    /// It is started now.
    Now {
        /// How many containers of its name the pod had before.
        attempt: u32,
        /// How many restarts in a row lead to it.
        restart_step: u32,
        /// A container to be removed first.
        remove: Option<String>,
    },
    /// It is started later.
    Later {
        /// When it is started.
        at: Timestamp,
        /// Duration of the whole back-off.
        delay: Duration,
    },
    /// It is started after this container was stopped.
    Stop {
        /// The runtime's id.
        id: String,
    },
    /// It is not started until something else happens.
    Wait,
}

impl DesiredPod {
    /// Reports whether no container will be started any more and only sidecars may still run.
    pub(crate) fn is_finished(&self, observed: &ObservedPod) -> bool {
        if self.is_over {
            return true;
        }
        let once = |wanted: &&DesiredContainer| {
            wanted.role == Role::Init && wanted.restart_policy == RestartPolicy::Never
        };
        let failed_init = self.containers.iter().filter(once).any(|wanted| {
            observed
                .latest(&wanted.name)
                .and_then(|c| c.exit_code())
                .is_some_and(|code| code != 0)
        });
        failed_init
            || self
                .mains()
                .all(|wanted| !is_wanted(wanted, observed.latest(&wanted.name)))
    }
}

/// Reports whether the container was made from another specification than the desired one, or has to get other resources by a restart. A
/// hash of another length was written by another agent before this one, which is no reason for a restart.
pub(super) fn is_changed(wanted: &DesiredContainer, last: &Container) -> bool {
    let is_other = |hash: &String| hash.len() == wanted.hash.len() && *hash != wanted.hash;
    last.replaced || last.hash.as_ref().is_some_and(is_other)
}

/// Reports whether the restart policy wants a container that does not run to be started.
pub(super) fn is_wanted(wanted: &DesiredContainer, last: Option<&Container>) -> bool {
    let Some(last) = last else {
        return wanted
            .last_exit_code
            .is_none_or(|code| wanted.restart_policy.restarts(code));
    };
    let Some(code) = last.exit_code() else {
        return true;
    };
    is_changed(wanted, last) || wanted.restart_policy.restarts(code)
}

/// Decides when a wanted container is started, given the last one of its name.
pub(super) fn decide(
    wanted: &DesiredContainer,
    last: Option<&Container>,
    now: Timestamp,
) -> StartDecision {
    let Some(last) = last else {
        return StartDecision::Now {
            attempt: wanted.previous_attempts,
            restart_step: 0,
            remove: None,
        };
    };
    let attempt = last.attempt.saturating_add(1);
    match last.state {
        ObservedState::Created => StartDecision::Now {
            attempt: last.attempt,
            restart_step: last.restart_step,
            remove: Some(last.id.clone()),
        },
        ObservedState::Unknown => StartDecision::Stop {
            id: last.id.clone(),
        },
        ObservedState::Running { .. } => StartDecision::Wait,
        ObservedState::Exited { .. } if is_changed(wanted, last) => StartDecision::Now {
            attempt,
            restart_step: 0,
            remove: None,
        },
        ObservedState::Exited {
            started_at,
            finished_at,
            ..
        } => {
            let ran = started_at.map_or(Duration::ZERO, |started_at| {
                timestamps::until(finished_at, started_at)
            });
            if ran >= BACK_OFF_RESET {
                return StartDecision::Now {
                    attempt,
                    restart_step: 1,
                    remove: None,
                };
            }
            let delay = restart_delay(last.restart_step);
            let at = timestamps::after(finished_at, delay);
            if timestamps::has_elapsed(at, now, MAX_DELAY) {
                StartDecision::Now {
                    attempt,
                    restart_step: last.restart_step.saturating_add(1),
                    remove: None,
                }
            } else {
                StartDecision::Later { at, delay }
            }
        }
    }
}

/// Returns the delay before a container is restarted that was itself the `restart_step`th restart in a row.
fn restart_delay(restart_step: u32) -> Duration {
    match restart_step.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => FIRST_DELAY
            .saturating_mul(2_u32.saturating_pow(doublings))
            .min(MAX_DELAY),
    }
}
