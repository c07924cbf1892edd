//! How a command of a script ends.

/// An exit code, or why nothing comes after it.
pub(super) type Outcome = Result<i32, Stop>;

/// Why no command comes after one.
#[derive(Debug)]
pub(super) enum Stop {
    /// The shell ends with this code.
    Exit(i32),
    /// It never ends.
    Serves,
    /// It waits for somebody to type, who may do so when it is not only planned.
    Waits,
    /// The loop that it is in ends.
    Break,
    /// The loop that it is in goes on with its next turn.
    Continue,
    /// It has to do with files or the time of day, which there are when it is not only planned.
    Depends,
    /// It is not known what it does.
    Unknown,
    /// A program ends for this reason.
    Broken(String),
}
