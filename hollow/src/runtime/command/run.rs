//! What a container's own command does, as far as this is known before the container starts.

use std::time::Duration;

/// How long unknown work takes in a container that is expected to end: an init container, or a container in a Job's pod.
pub(crate) const SHORT_WORK: Duration = Duration::from_millis(500);

/// What a command does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    /// The lines of its log, and how long after its start each is written.
    pub(crate) lines: Vec<(Duration, String)>,
    /// When it ends by itself, and with which exit code; `None` means never.
    pub(crate) end: Option<(Duration, i32)>,
    /// Whether this follows from its words, and not only from what kind of container it is.
    pub(crate) is_known: bool,
    /// How it is run, if it is not planned.
    pub(crate) live: Option<Live>,
    /// Why its script is not run, if it cannot be read.
    pub(crate) unread: Option<String>,
}

/// How a container's own command is run when the container starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Live {
    /// It runs the commands that are typed.
    Typed,
    /// It uses files or the time of day. Unknown commands run for ever or, if `guesses`, succeed.
    Own {
        /// Whether the container is expected to end.
        guesses: bool,
    },
}
