//! What a container's own command does, as far as it is known before the container starts.

use std::time::Duration;

/// How long something runs whose work is not known, but that is there to end: an init container, a pod of a job.
pub(crate) const SHORT_WORK: Duration = Duration::from_millis(500);

/// What a command does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    /// Lines of its log, and how long after its start each is written.
    pub(crate) lines: Vec<(Duration, String)>,
    /// When it ends by itself, and with which code; absent: never.
    pub(crate) end: Option<(Duration, i32)>,
    /// Whether its words say so, and not only what it is there for.
    pub(crate) is_known: bool,
    /// How it is run, where what it does is not planned.
    pub(crate) live: Option<Live>,
}

/// How a container's own command is run when the container starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Live {
    /// It does what is typed.
    Typed,
    /// It reads or writes files, or tells the time. What of it is not known serves or, if `guesses`, ends well.
    Own {
        /// Whether the container is there to end.
        guesses: bool,
    },
}
