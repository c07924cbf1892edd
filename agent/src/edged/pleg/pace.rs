//! How often a runtime without events is asked what there is. Pure.

use std::time::{Duration, Instant};

/// How long it is left alone while the kernel tells what ends …
const LONG: Duration = Duration::from_secs(5);
/// … once so many looks have found nothing new.
const QUIET: u32 = 3;

/// How often the lists are compared.
#[derive(Debug)]
pub(super) struct Pace {
    /// While nobody else tells.
    every: Duration,
    /// Looks in a row that found nothing new.
    quiet: u32,
    /// When the kernel told last.
    told: Option<Instant>,
    /// Containers have ended and the kernel did not tell: this runtime keeps the groups of those that have ended.
    silent: bool,
}

/// What a look has found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// Something new.
    pub(super) changed: bool,
    /// A container that has ended since the last look.
    pub(super) ended: bool,
    /// The kernel was to tell of all of them.
    pub(super) watched: bool,
}

impl Pace {
    /// Nothing is known yet.
    pub(super) fn new(every: Duration) -> Self {
        Self { every, quiet: 0, told: None, silent: false }
    }

    /// While nobody else tells.
    pub(super) fn every(&self) -> Duration {
        self.every
    }

    /// How long to wait after a look.
    pub(super) fn after(&mut self, found: Found, now: Instant) -> Duration {
        self.quiet = if found.changed { 0 } else { self.quiet.saturating_add(1) };
        self.silent |=
            found.ended && found.watched && self.told.is_none_or(|at| now.duration_since(at) > LONG);
        if found.watched && !self.silent && self.quiet >= QUIET { self.every.max(LONG) } else { self.every }
    }

    /// The kernel has told.
    pub(super) fn told(&mut self, now: Instant) {
        (self.quiet, self.told) = (0, Some(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_left_alone_while_the_kernel_tells() {
        let begun = Instant::now();
        let mut pace = Pace::new(Duration::from_secs(1));
        let idle = Found::default();
        let watched = Found { watched: true, ..idle };
        let ended = Found { changed: true, ended: true, watched: true };
        // second, found: seconds until the next look
        let table = [
            (1, idle, 1),
            (2, idle, 1),
            (3, idle, 1),
            (4, Found { changed: true, ..watched }, 1),
            (5, watched, 1),
            (6, watched, 1),
            (7, watched, 5),
            // the kernel tells, and the runtime does not know yet
            (10, watched, 1),
            (11, ended, 1),
            (12, watched, 1),
            (13, watched, 1),
            (14, watched, 5),
            (19, watched, 5),
            // nobody told
            (24, ended, 1),
            (25, watched, 1),
            (26, watched, 1),
            (27, watched, 1),
            (28, watched, 1),
        ];
        for (second, found, wait) in table {
            let now = begun + Duration::from_secs(second);
            if second == 10 {
                pace.told(now);
            }
            assert_eq!(pace.after(found, now).as_secs(), wait, "after {second} s");
        }
    }
}
