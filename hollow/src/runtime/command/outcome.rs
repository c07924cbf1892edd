//! How a command of a script ends.

/// An exit code, or why no command follows.
pub(super) type Outcome = Result<i32, Stop>;

/// Why no command follows.
#[derive(Debug)]
pub(super) enum Stop {
    /// The shell ends with this code.
    Exit(i32),
    /// The command never ends.
    Serves,
    /// The command waits for somebody to type, which can happen only when it is run and not planned.
    Waits,
    /// The surrounding loop ends.
    Break,
    /// The surrounding loop goes on with its next turn.
    Continue,
    /// The command needs files or the time of day, which exist only when it is run and not planned.
    Depends,
    /// What the command does is not known.
    Unknown,
    /// A program fails for this reason.
    Broken(String),
}
